// eval --record-dataset: the test episodes of an evaluation as a dataset. While it runs, each
// episode has a file in its run folder (rollout/episode_slot.h); the dataset is written once all
// have ended.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "config/dataset_format.h"
#include "run/episode_record.h"
#include "task/experiment.h"

namespace dp_bench::evaluate {

struct RecordingOptions {
  std::filesystem::path output;              // of the dataset; empty: nothing is recorded
  std::string format = config::kZarrFormat;  // or a writer plugin
  bool only_successes = false;               // leaves out the other episodes
};

/// For a command that continues: " --record-dataset DIR --format lerobot", as far as they were
/// given; empty if nothing is recorded.
std::string CommandText(const RecordingOptions& options);

/// Checks before anything runs that the dataset can be recorded. `found`: the episodes that
/// `folder` has if it is resumed. Throws Error{kUsage} if `output` is not free (a dataset of this
/// evaluation, which was killed after it, is no obstacle), if one of `found` was not recorded, if
/// `env.perturb` changes the actions on their way to the env, if the evaluation was begun with
/// another `only_successes`, or if `folder` is recorded and there is no `output`; Error{kPlugin}
/// for an unknown format.
void RequireRecordable(const RecordingOptions& options, const task::Experiment& experiment,
                       const std::filesystem::path& folder, bool is_resumed,
                       std::span<const run::EpisodeRecord> found);

/// Notes the options in the run folder, for the commands that continue. Throws Error{kIo}.
void NoteRecording(const RecordingOptions& options, const std::filesystem::path& folder);

/// Writes the recorded test episodes of the run folder as a dataset, in the order of `records`, and
/// removes their files. Episodes that failed are left out and named. The dataset says which seed,
/// score and success belong to each episode, and what it is from: in .zattrs or, with another
/// format, in `output`.recording.json beside it. If it throws, the run folder and the recorded
/// files stay, and the same call continues. Returns false if a stop signal interrupted it.
bool WriteRecordedDataset(const RecordingOptions& options, const task::Experiment& experiment,
                          const EnvSpec& env, const std::filesystem::path& folder,
                          std::span<const run::EpisodeRecord> records);

}  // namespace dp_bench::evaluate
