// dp_bench collect: collects demonstrations of an env's expert as a dataset.
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/verbs.h"
#include "config/dataset_format.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "core/stop_signal.h"
#include "run/result_files.h"
#include "run/shard.h"
#include "task/collection.h"
#include "task/dataset_conversion.h"
#include "task/dry_run.h"
#include "task/key_check.h"

namespace dp_bench::app {
namespace {

constexpr const char* kCollectExamples =
    R"(To continue an interrupted dataset, run the same command again.

Examples:
  dp_bench collect --env point_mass --episodes 20 --output data/point_mass.zarr
  dp_bench collect --env kuavo_dualarm --task weigh_relay
  dp_bench collect --env kuavo_dualarm --obs rgb --format lerobot --output data/pick_place_lerobot)";

struct CollectVerbOptions {
  task::ExperimentOptions experiment;
  std::optional<int> episodes;
  std::string shard;
  std::filesystem::path output;
  std::string format = config::kZarrFormat;
  std::vector<std::string> map;
  std::vector<std::string> params;
  bool is_dry_run = false;
  std::filesystem::path json;  // of the dry run
};

int PredictCollectionCost(const CollectVerbOptions& options, const task::Task& task,
                          data::CollectRequest request) {
  run::RequireResultFiles({{"--json", options.json, run::kPredictionJson}});
  const auto cost = task::PredictCollection(task, std::move(request));
  if (!cost) return core::kExitInterrupted;
  if (!options.json.empty()) {
    run::WritePredictions(options.json, {{run::kPredictedCollection, *cost}});
  }
  core::PrintResult("all episodes take {}; from {}\n", run::Describe(*cost), cost->tried);
  return 0;
}

// Converts what was collected, which stays where `run` looks for it.
int Convert(const CollectVerbOptions& options, const task::Task& task,
            const std::filesystem::path& collected) {
  return ConvertWithProgress({{.sources = {collected},
                               .output = options.output,
                               .format = options.format,
                               .params = options.params,
                               .map = options.map,
                               .task = task.TaskText()}},
                             task.catalogue());
}

// A part of the episodes, of seeds that no other part tries.
void TakeShard(CollectVerbOptions* options) {
  constexpr std::uint64_t kSeedsOfShard = 100'000'000;
  const run::SeedShard shard = run::ReadShard(options->shard);
  const task::Task task(options->experiment);
  const auto whole = data::CollectConfig::FromConfig(task.config().Sub("collect"));
  const auto first = static_cast<std::uint64_t>(shard.index) * kSeedsOfShard;
  for (const std::string& value :
       {fmt::format("collect.n_episodes={}", run::CountOf(shard, whole.n_episodes)),
        fmt::format("collect.start_seed={}", whole.start_seed + first)}) {
    options->experiment.overrides.push_back(value);
  }
  if (!options->output.empty()) options->output /= shard.FolderName() + "." + options->format;
}

int CollectDemonstrations(CollectVerbOptions options) {
  if (options.episodes) {
    options.experiment.overrides.push_back("collect.n_episodes=" +
                                           std::to_string(*options.episodes));
  }
  if (!options.shard.empty()) TakeShard(&options);
  const task::Task task(options.experiment);
  data::CollectRequest request = task.MakeCollectRequest();
  task::RejectUnknownKeys(task, {});
  if (options.is_dry_run) return PredictCollectionCost(options, task, std::move(request));
  const bool is_zarr = options.format == config::kZarrFormat;
  if (is_zarr && !options.output.empty()) request.output = options.output;
  if (is_zarr && !(options.map.empty() && options.params.empty())) {
    throw UsageError("--map and --param are for another --format than zarr");
  }
  if (!is_zarr) {
    if (options.output.empty()) {
      options.output = request.output;
      options.output.replace_extension("." + options.format);
    }
    RequireFreeFolder(options.output);
  }
  const std::filesystem::path collected = request.output;
  if (!task::RunCollection(task, std::move(request), core::CatchStopSignals())) {
    return core::kExitInterrupted;
  }
  return is_zarr ? 0 : Convert(options, task, collected);
}

}  // namespace

Verb AddCollect(CLI::App* app) {
  auto options = std::make_shared<CollectVerbOptions>();
  app->footer(kCollectExamples);
  AddTaskOptions(app, &options->experiment);
  app->add_option("--episodes", options->episodes, "Episodes to keep (collect.n_episodes)")
      ->check(CLI::PositiveNumber);
  app->add_option("--output", options->output,
                  "Dataset to write or continue (default: where `run` looks for it)");
  app->add_option(
         "--format", options->format,
         "zarr, lerobot, or another format of `dp_bench dataset convert`. Other than zarr: "
         "collects as usual, then converts a copy to --output (default: beside it)")
      ->capture_default_str();
  app->add_option(
      "--shard", options->shard,
      "i/n, from 0 on, or auto: only the i-th of n parts of the episodes, with seeds of "
      "its own, in a dataset below --output; join them with `dataset merge`");
  app->add_flag("--dry-run", options->is_dry_run,
                "Collect two episodes, keep none, and say what all of them will cost");
  AddPredictionFile(app, &options->json);
  AddMapOption(app, &options->map);
  app->add_option("--param", options->params, "See `dp_bench dataset convert`; may be repeated")
      ->allow_extra_args(false);
  return [options] { return CollectDemonstrations(*options); };
}

}  // namespace dp_bench::app
