// The reference for a candidate: the outcomes of one evaluation and the task that it ran, in a JSON
// file small enough for a repository.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "run/run_folder.h"

namespace dp_bench::compare {

/// Writes "format", "title", the "env" section of the config with "max_steps", the "env_plugin" and
/// the "outcome_class" of the manifest, and one line per test episode: seed, success, score,
/// broken, trace hash. Throws Error{kData} if the run has no test episodes, config.json or
/// manifest.json.
std::string BaselineJson(const run::RunFolder& run);

/// Reads the file as the run folder that it represents; path() is the file's path. Throws
/// Error{kData} naming the file if it is not a baseline, Error{kIo} if it cannot be read.
run::RunFolder ReadBaseline(const std::filesystem::path& file);

/// The same for text that was read from `file`.
run::RunFolder ParseBaseline(std::string_view text, const std::filesystem::path& file);

}  // namespace dp_bench::compare
