// dp_bench collect: demonstrations of an env's expert as a data set.
#include <memory>
#include <optional>

#include "app/collection.h"
#include "app/key_check.h"
#include "app/stop_signal.h"
#include "app/verbs/verbs.h"

namespace dp_bench {
namespace {

constexpr const char* kCollectExamples =
    R"(Continues a data set that was interrupted: the same command again.

Examples:
  dp_bench collect --env point_mass --episodes 20 --output data/point_mass.zarr
  dp_bench collect --env kuavo_dualarm --task weigh_relay)";

struct CollectVerbOptions {
  ExperimentOptions experiment;
  std::optional<int> episodes;
  std::filesystem::path output;
};

int CollectDemonstrations(CollectVerbOptions options) {
  if (options.episodes) {
    options.experiment.overrides.push_back("collect.n_episodes=" +
                                           std::to_string(*options.episodes));
  }
  const Task task(options.experiment);
  CollectRequest request = task.MakeCollectRequest();
  RejectUnknownKeys(task, {});
  if (!options.output.empty()) request.output = options.output;
  return RunCollection(task, std::move(request), CatchStopSignals()) ? 0 : kExitInterrupted;
}

}  // namespace

Verb AddCollect(CLI::App* app) {
  auto options = std::make_shared<CollectVerbOptions>();
  app->footer(kCollectExamples);
  AddTaskOptions(app, &options->experiment);
  app->add_option("--episodes", options->episodes, "How many to keep (collect.n_episodes)")
      ->check(CLI::PositiveNumber);
  app->add_option("--output", options->output,
                  "Data set to write or to continue (default: where `run` looks for it)");
  return [options] { return CollectDemonstrations(*options); };
}

}  // namespace dp_bench
