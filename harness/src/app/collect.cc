// dp_bench collect: collects demonstrations of an env's expert as a dataset.
#include <memory>
#include <optional>

#include "app/verbs.h"
#include "core/exit_code.h"
#include "core/stop_signal.h"
#include "experiment/collection.h"
#include "experiment/key_check.h"

namespace dp_bench::app {
namespace {

constexpr const char* kCollectExamples =
    R"(To continue an interrupted dataset, run the same command again.

Examples:
  dp_bench collect --env point_mass --episodes 20 --output data/point_mass.zarr
  dp_bench collect --env kuavo_dualarm --task weigh_relay)";

struct CollectVerbOptions {
  experiment::ExperimentOptions experiment;
  std::optional<int> episodes;
  std::filesystem::path output;
};

int CollectDemonstrations(CollectVerbOptions options) {
  if (options.episodes) {
    options.experiment.overrides.push_back("collect.n_episodes=" +
                                           std::to_string(*options.episodes));
  }
  const experiment::Task task(options.experiment);
  data::CollectRequest request = task.MakeCollectRequest();
  experiment::RejectUnknownKeys(task, {});
  if (!options.output.empty()) request.output = options.output;
  return experiment::RunCollection(task, std::move(request), core::CatchStopSignals())
             ? 0
             : core::kExitInterrupted;
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
  return [options] { return CollectDemonstrations(*options); };
}

}  // namespace dp_bench::app
