// An episode of a finished run, run again.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "run/run_folder.h"

namespace dp_bench::experiment {

/// The record at a place of the seed list. Throws Error{kUsage} when the run has none there.
const run::EpisodeRecord& EpisodeAt(const run::RunFolder& run, int place);

/// Runs the episode with the run's own checkpoint (that of its evaluation, or `checkpoints/latest`
/// of its training) and config, changed by `overrides`; films it and records its trace in `output`.
/// The trace hash of the result equals the recorded one on the same build and kind of machine.
/// Throws Error{kUsage} when the folder does not say what it evaluated.
run::EpisodeRecord RunRecordedEpisode(const run::RunFolder& run, int place,
                                      const std::vector<std::string>& overrides,
                                      const std::filesystem::path& output);

}  // namespace dp_bench::experiment
