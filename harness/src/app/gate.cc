// dp_bench gate with candidates that are rolled out: checkpoints, and policies without weights.
#include <filesystem>
#include <memory>

#include "app/light/verbs.h"
#include "app/verbs.h"
#include "evaluate/checkpoint_evaluation.h"
#include "evaluate/verification.h"

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
  CLI::Option* policy = app->add_option(
      "--policy", rollouts->policy,
      "Roll out this policy, which has no weights, such as remote; instead of --candidate");
  AddTaskOptions(app, &options->experiment);
  for (const char* name : {"--env", "--obs", "--task", "--config", "overrides"}) {
    app->get_option(name)->needs(policy);
  }
  rollouts->run = [options, gate = rollouts.get()](
                      const std::filesystem::path& checkpoint, const std::filesystem::path& output,
                      const run::RunFolder& baseline, const compare::GateRolloutPlan& plan) {
    evaluate::CheckpointEvaluationOptions evaluation = *options;
    evaluation.checkpoint = checkpoint;
    evaluation.experiment.policy = gate->policy;
    evaluation.output = output;
    evaluation.overwrites = gate->overwrites;
    return evaluate::GateByRollouts(evaluation, baseline, plan);
  };
  return verb;
}

}  // namespace dp_bench::app
