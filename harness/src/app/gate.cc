// dp_bench gate with checkpoints as candidates, which are rolled out.
#include <filesystem>
#include <memory>

#include "app/light/verbs.h"
#include "app/verbs.h"
#include "evaluate/checkpoint_evaluation.h"

namespace dp_bench::app {

Verb AddGateWithRollouts(CLI::App* app) {
  const auto rollouts = std::make_shared<GateRollouts>();
  const Verb verb = AddGate(app, rollouts);
  const auto options = std::make_shared<evaluate::CheckpointEvaluationOptions>();
  app->add_option("--output", rollouts->output,
                  "Run folder for rollouts of a checkpoint (default: as for dp_bench eval)");
  app->add_flag("--overwrite", rollouts->overwrites, "Replace an evaluation in --output");
  AddWeightsOption(app, &options->weights);
  AddDeviceOption(app, &options->experiment.device);
  AddIsolateOption(app, &options->experiment);
  AddPluginDirOption(app, &options->experiment.plugin_dirs);
  rollouts->run = [options, gate = rollouts.get()](
                      const std::filesystem::path& checkpoint, const std::filesystem::path& output,
                      const run::RunFolder& baseline, const compare::GateRolloutPlan& plan) {
    evaluate::CheckpointEvaluationOptions evaluation = *options;
    evaluation.checkpoint = checkpoint;
    evaluation.output = output;
    evaluation.overwrites = gate->overwrites;
    return evaluate::GateByRollouts(evaluation, baseline, plan);
  };
  return verb;
}

}  // namespace dp_bench::app
