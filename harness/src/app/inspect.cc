// dp_bench inspect: what a policy is, before anything is trained.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "app/inspect_policy.h"
#include "app/verbs.h"
#include "dp_bench/error.h"

namespace dp_bench {
namespace {

constexpr double kTolerance = 0.1;  // of --check

constexpr const char* kDetails =
    R"(Runs the policy of the config on random numbers in the shapes of the task, on the CPU; no
data set is needed. Prints the tensors on their way to the loss, the parameters of each module, and
the memory of a training step: parameters, gradients, optimizer and EMA from their sizes; batch and
activations measured, and for large batches estimated from smaller ones.

  dp_bench inspect --policy unet_hybrid --env point_mass
  dp_bench inspect --policy transformer --env kuavo_dualarm --obs rgb --batch-sizes 16,256
  dp_bench inspect --policy unet_hybrid --env pusht policy.params.down_dims=[256,512,1024])";

struct Options {
  ExperimentOptions experiment;
  PolicyInspectionOptions policy;
  bool as_json = false;
};

void RequireAgreement(const MemoryCheck& check) {
  if (check.deviation() <= kTolerance) return;
  throw Error(
      ErrorCode::kNumeric,
      fmt::format(
          "a step at batch size {} takes {} bytes, the estimate was {}: more than {:.0f} % "
          "apart. The memory of this policy is no straight line over the batch size; measure "
          "with --check at the size that you want.",
          check.measured.batch_size, check.measured.total(), check.estimated.total(),
          100.0 * kTolerance));
}

int Inspect(const Options& options) {
  const Experiment experiment(options.experiment);
  const PolicyInspection inspection = InspectPolicy(experiment, options.policy);
  fmt::print("{}", options.as_json ? ToJson(inspection).dump(2) + "\n" : ToText(inspection));
  if (inspection.check) RequireAgreement(*inspection.check);
  return 0;
}

}  // namespace

Verb AddInspect(CLI::App* app) {
  auto options = std::make_shared<Options>();
  app->footer(kDetails);
  const CLI::Range positive(1, 1 << 20);
  app->add_option("--policy", options->experiment.policy, "Method: configs/policy/<name>.json");
  AddTaskOptions(app, &options->experiment);
  app->add_option("--batch-size", options->policy.batch_size,
                  "Rows of the batch whose shapes are shown")
      ->check(positive)
      ->capture_default_str();
  app->add_option("--batch-sizes", options->policy.batch_sizes, "Batch sizes whose memory is shown")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(positive)
      ->capture_default_str();
  app->add_option("--levels", options->policy.n_levels, "How deep modules are listed")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app->add_option("--check", options->policy.checked_batch_size,
                  "Measure this batch size too; more than 10 % off the estimate is an error")
      ->check(positive);
  app->add_flag("--json", options->as_json, "Print JSON, memory in bytes");
  return [options] { return Inspect(*options); };
}

}  // namespace dp_bench
