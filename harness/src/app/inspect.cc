// dp_bench inspect: shows a policy before training, a dataset, or a checkpoint.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "app/verbs.h"
#include "core/console.h"
#include "core/exit_code.h"
#include "dp_bench/error.h"
#include "experiment/key_check.h"
#include "inspect/data_inspection.h"
#include "inspect/inspect_checkpoint.h"
#include "inspect/inspect_policy.h"

namespace dp_bench::app {
namespace {

constexpr double kTolerance = 0.1;  // of --check

constexpr const char* kInspectDetails =
    R"(With --policy: runs the policy on random numbers in the shapes of the task, on the CPU and without a
dataset. Prints the shapes of tensors on the way to the loss, the parameters of each module, and the
memory of a training step: parameters, gradients, optimizer and EMA from their sizes; batch and
activations measured, for large batches estimated from smaller ones.

Without --policy: a dataset's keys, statistics, episode lengths, and faults with episode and step; with
--html also a page with values and images.

With --checkpoint: its files, training state, normalizer and parameters.

Examples:
  dp_bench inspect --policy unet_hybrid --env point_mass
  dp_bench inspect --policy transformer --env kuavo_dualarm --obs rgb --batch-sizes 16,256
  dp_bench inspect --env pusht --html pusht.html
  dp_bench inspect --dataset data/kuavo_dualarm_pick_place-1a2b3c4d.zarr
  dp_bench inspect --checkpoint models/pusht_unet_hybrid)";

struct InspectVerbOptions {
  experiment::ExperimentOptions experiment;
  inspect::PolicyInspectionOptions policy;
  std::filesystem::path checkpoint;
  std::filesystem::path html;
  bool as_json = false;
};

void RequireAgreement(const inspect::MemoryCheck& check) {
  if (check.deviation() <= kTolerance) return;
  throw Error(ErrorCode::kNumeric,
              fmt::format("a step at batch size {} takes {} bytes, the estimate was {}: more than "
                          "{:.0f} % apart. The memory of this policy is not linear in the batch "
                          "size; measure with --check at the size that you need.",
                          check.measured.batch_size, check.measured.total(),
                          check.estimated.total(), 100.0 * kTolerance));
}

template <class Inspection>
void Print(const Inspection& inspection, bool as_json) {
  core::PrintResult(
      "{}", as_json ? inspect::ToJson(inspection).dump(2) + "\n" : inspect::ToText(inspection));
}

int InspectThePolicy(const InspectVerbOptions& options) {
  const experiment::Experiment experiment(options.experiment);
  experiment::RejectUnknownKeys(experiment, {.makes_policy = true});
  experiment::PrintReferences(experiment);
  const inspect::PolicyInspection inspection = inspect::InspectPolicy(experiment, options.policy);
  Print(inspection, options.as_json);
  if (inspection.check) RequireAgreement(*inspection.check);
  return 0;
}

// Without a config there are no values to override.
void RequireNoOverrides(const InspectVerbOptions& options, const char* subject) {
  if (options.experiment.overrides.empty()) return;
  throw Error(ErrorCode::kUsage,
              fmt::format("nothing reads '{}': inspect {} takes no config values; leave it out, or "
                          "give --env or --config",
                          options.experiment.overrides.front(), subject));
}

int InspectTheCheckpoint(InspectVerbOptions options) {
  RequireNoOverrides(options, "--checkpoint");
  ChooseCheckpoint(&options.checkpoint);
  plugin::PluginCatalogue catalogue(
      plugin::PluginCatalogue::DefaultSearchPath(options.experiment.plugin_dirs));
  const inspect::CheckpointInspection inspection =
      inspect::InspectCheckpoint(options.checkpoint, catalogue, options.policy.n_levels);
  Print(inspection, options.as_json);
  return inspection.has_non_finite() ? 1 : 0;
}

int Show(const Dataset& dataset, const std::string& name, const InspectVerbOptions& options) {
  const inspect::DataInspection inspection = inspect::InspectData(dataset, name);
  Print(inspection, options.as_json);
  if (!options.html.empty()) inspect::WriteDataPage(inspection, options.html);
  return inspect::HasProblems(inspection.faults) ? 1 : 0;
}

int InspectTheData(const InspectVerbOptions& options) {
  const experiment::ExperimentOptions& asked = options.experiment;
  if (asked.env.empty() && asked.config.empty()) {
    RequireNoOverrides(options, "--dataset");
    plugin::PluginCatalogue catalogue(
        plugin::PluginCatalogue::DefaultSearchPath(asked.plugin_dirs));
    const nlohmann::json params = {{"path", asked.dataset}};
    const auto dataset =
        catalogue.Create<Dataset>("zarr_replay", Config::FromJson(params.dump(), "--dataset"));
    return Show(*dataset, asked.dataset, options);
  }
  const experiment::Task task(asked);
  experiment::PrintReferences(task);
  const auto dataset = experiment::ProvideCheckedDataset(task, {});
  return dataset == nullptr ? core::kExitInterrupted : Show(*dataset, task.name(), options);
}

int Inspect(const InspectVerbOptions& options) {
  if (!options.checkpoint.empty()) return InspectTheCheckpoint(options);
  if (!options.experiment.policy.empty()) return InspectThePolicy(options);
  if (!options.experiment.dataset.empty() || !options.experiment.env.empty() ||
      !options.experiment.config.empty()) {
    return InspectTheData(options);
  }
  throw Error(ErrorCode::kUsage,
              "nothing to inspect: give --policy and --env, --env, --dataset, or --checkpoint "
              "(see --help)");
}

}  // namespace

Verb AddInspect(CLI::App* app) {
  auto options = std::make_shared<InspectVerbOptions>();
  app->footer(kInspectDetails);
  const CLI::Range positive(1, 1 << 20);
  app->add_option("--policy", options->experiment.policy, "Method: configs/policy/<name>.json");
  AddTaskOptions(app, &options->experiment);
  app->add_option("--dataset", options->experiment.dataset, "A dataset written by dp_bench");
  app->add_option("--checkpoint", options->checkpoint, "Checkpoint or run folder")
      ->check(CLI::ExistingDirectory);
  app->add_option("--html", options->html, "Write a page about the dataset to this file");
  app->add_option("--batch-size", options->policy.batch_size, "Batch size for the shapes")
      ->check(positive)
      ->capture_default_str();
  app->add_option("--batch-sizes", options->policy.batch_sizes,
                  "Batch sizes for the memory estimates")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(positive)
      ->capture_default_str();
  app->add_option("--levels", options->policy.n_levels, "Depth of the list of modules")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app->add_option("--check", options->policy.checked_batch_size,
                  "Measure this batch size too; more than 10 % off the estimate is an error")
      ->check(positive);
  app->add_flag("--json", options->as_json, "Print JSON, memory in bytes");
  return [options] { return Inspect(*options); };
}

}  // namespace dp_bench::app
