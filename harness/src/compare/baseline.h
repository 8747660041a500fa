// What a candidate is held to: the outcomes of one evaluation and the task that it ran, in a JSON
// file small enough to live in a repository.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "run/run_folder.h"

namespace dp_bench::compare {

/// "format", "title", the "env" section of the config with "max_steps", the "env_plugin" of the
/// manifest, and one line per test episode: seed, success, score, broken, trace hash. Throws
/// Error{kData} when the run has no test episodes, config.json or manifest.json.
std::string BaselineJson(const run::RunFolder& run);

/// Reads it back as the run folder that it stands for; path() is that of the file. Throws
/// Error{kData} naming the file when it is no baseline, Error{kIo} when it cannot be read.
run::RunFolder ReadBaseline(const std::filesystem::path& file);

/// The same for the text of `file`.
run::RunFolder ParseBaseline(std::string_view text, const std::filesystem::path& file);

}  // namespace dp_bench::compare
