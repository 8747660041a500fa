#include "evaluate/replay_episode.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/communicator.h"
#include "core/console.h"
#include "core/json.h"
#include "dp_bench/error.h"
#include "dp_bench/policy.h"
#include "evaluate/evaluation.h"
#include "run/checkpoint.h"
#include "run/run_files.h"
#include "task/output_folder.h"

namespace dp_bench::evaluate {
namespace {

namespace fs = std::filesystem;

run::CheckpointChoice CheckpointOf(const run::RunFolder& run) {
  if (const auto evaluated = run::EvaluatedCheckpoint(run.manifest)) return *evaluated;
  const fs::path latest = run.path / run::kCheckpointsFolder / run::kLatest;
  if (!fs::exists(latest)) {
    throw Error(ErrorCode::kUsage,
                fmt::format("'{}' cannot be replayed: its manifest.json names no checkpoint, and "
                            "there is no {}",
                            run.path.string(), latest.string()));
  }
  return {latest, fs::exists(latest / run::kEmaFile) ? "ema" : "model"};
}

void WarnOfOtherCheckpoint(const run::RunFolder& run, const fs::path& checkpoint) {
  const nlohmann::json manifest = core::TryParseJson(run.manifest);
  const core::JsonView then(manifest, run::kManifestFile);
  if (!then.Has("checkpoint")) return;
  if (then.At("checkpoint").Get<std::string>("sha256") == task::CheckpointHash(checkpoint)) return;
  core::LogWarning(fmt::format("the checkpoint {} has changed since the run", checkpoint.string()));
}

}  // namespace

const run::EpisodeRecord& EpisodeAt(const run::RunFolder& run, int place) {
  const auto found = std::ranges::find(run.episodes, place, &run::EpisodeRecord::episode);
  if (found != run.episodes.end()) return *found;
  throw Error(ErrorCode::kUsage, fmt::format("'{}' has no episode {}; it has {} of them",
                                             run.path.string(), place, run.episodes.size()));
}

run::EpisodeRecord RunRecordedEpisode(const run::RunFolder& run, int place,
                                      const std::vector<std::string>& overrides,
                                      const fs::path& output) {
  EpisodeAt(run, place);
  const run::CheckpointChoice choice = CheckpointOf(run);
  task::ExperimentOptions options;
  options.config = run.config_file();
  options.overrides = {"env_runner.record_traces=true"};
  options.overrides.insert(options.overrides.end(), overrides.begin(), overrides.end());
  const task::Experiment experiment(options);
  WarnOfOtherCheckpoint(run, choice.folder);
  const std::unique_ptr<Policy> policy =
      experiment.LoadPolicy(run::Checkpoint::Open(choice.folder), choice.weights);

  core::SingleProcess ranks;
  Evaluation evaluation(experiment, ranks, output, /*n_videos=*/std::numeric_limits<int>::max());
  const run::RunResult result =
      evaluation.Run(*policy, experiment.device(), std::span<const int>(&place, 1), {});
  return result.records.at(0);
}

}  // namespace dp_bench::evaluate
