// Runs an episode of a finished run again.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "run/run_folder.h"

namespace dp_bench::evaluate {

/// The record at an index of the seed list. Throws Error{kUsage} if there is none.
const run::EpisodeRecord& EpisodeAt(const run::RunFolder& run, int place);

/// Runs the episode with the run's checkpoint (the evaluated one, or `checkpoints/latest` of a
/// training) and config, changed by `overrides`. Writes film and trace into `output`. On the same
/// build and kind of machine the trace hash equals the recorded one. Throws Error{kUsage} if the
/// folder does not say what it evaluated.
run::EpisodeRecord RunRecordedEpisode(const run::RunFolder& run, int place,
                                      const std::vector<std::string>& overrides,
                                      const std::filesystem::path& output);

}  // namespace dp_bench::evaluate
