// dp_bench inspect: shows a policy before training, a dataset, or a checkpoint.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/verbs.h"
#include "control/env_runner_config.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "data/collector.h"
#include "inspect/attention.h"
#include "inspect/data_inspection.h"
#include "inspect/inspect_policy.h"
#include "rollout/env_runner.h"
#include "run/result_files.h"
#include "run/run_files.h"
#include "task/dataset_conversion.h"
#include "task/key_check.h"

namespace dp_bench::app {
namespace {

constexpr double kTolerance = 0.1;  // of --check

constexpr const char* kInspectDetails =
    R"(With --policy: runs the policy on random numbers in the shapes of the task, on the CPU and without a
dataset. Prints the shapes of tensors on the way to the loss, the parameters of each module, and the
memory of a training step: parameters, gradients, optimizer and EMA from their sizes; batch and
activations measured, for large batches estimated from smaller ones.

Without --policy: a dataset's keys, statistics, episode lengths, and faults with episode and step; with
--html also a page with values and images. An env whose dataset is not there yet: its keys, action bounds
and abilities.

With --checkpoint: its files, training state, normalizer and parameters. With --attention too: what each
action token of a transformer or of rgbd_fusion looks at while it plans, for the first observation of a
test episode or a step of a demonstration; with --html also a page with heat maps of all layers and heads.

Examples:
  dp_bench inspect --policy unet_hybrid --env point_mass
  dp_bench inspect --policy transformer --env kuavo_dualarm --obs rgb --batch-sizes 16,256
  dp_bench inspect --env pusht --html pusht.html
  dp_bench inspect --dataset data/kuavo_dualarm_pick_place-1a2b3c4d.zarr
  dp_bench inspect --dataset path/to/lerobot_dataset
  dp_bench inspect --checkpoint models/pusht_unet_hybrid
  dp_bench inspect --checkpoint runs/mine --attention --html attention.html
  dp_bench inspect --checkpoint runs/mine --attention --episode 0 --step 40)";

struct InspectVerbOptions {
  task::ExperimentOptions experiment;
  task::DatasetReading reading;  // without a config
  inspect::PolicyInspectionOptions policy;
  std::filesystem::path checkpoint;
  std::filesystem::path html;
  bool with_attention = false;
  std::optional<std::int64_t> episode;  // of the dataset, for the attention; none: an env's start
  std::int64_t step = 0;                // of that episode
  bool as_json = false;
};

// Throws unless the estimate of --check is close to what was measured.
void RequireAgreement(const nlohmann::json& check) {
  if (check["deviation"].get<double>() <= kTolerance) return;
  throw NumericError(
      "a step at batch size {} takes {} bytes, the estimate was {}: more than "
      "{:.0f} % apart. The memory of this policy is not linear in the batch "
      "size; measure with --check at the size that you need.",
      check["measured"]["batch_size"].get<std::int64_t>(),
      check["measured"]["step"].get<std::int64_t>(), check["estimated"]["step"].get<std::int64_t>(),
      100.0 * kTolerance);
}

void Print(const nlohmann::json& inspection, std::string (*text)(nlohmann::json), bool as_json) {
  core::PrintResult("{}", as_json ? inspection.dump(2) + "\n" : text(inspection));
}

template <class Inspection>
void Print(const Inspection& inspection, bool as_json) {
  core::PrintResult(
      "{}", as_json ? inspect::ToJson(inspection).dump(2) + "\n" : inspect::ToText(inspection));
}

int InspectThePolicy(const InspectVerbOptions& options) {
  const task::Experiment experiment(options.experiment);
  task::RejectUnknownKeys(experiment, {.makes_policy = true});
  task::PrintReferences(experiment);
  const nlohmann::json inspection = inspect::InspectPolicy(experiment, options.policy);
  Print(inspection, inspect::PolicyText, options.as_json);
  if (inspection["memory"].contains("check")) RequireAgreement(inspection["memory"]["check"]);
  return 0;
}

control::RecordedObs FirstObsOfTestEpisode(const task::Experiment& experiment, std::string* name) {
  const auto config =
      control::EnvRunnerConfig::ForALook(experiment.config().Sub("env_runner"), /*n_test=*/1);
  const rollout::EnvRunner runner(config, [&] { return experiment.CreateEnv(); },
                                  experiment.spec().shape_meta, experiment.spec().horizons,
                                  /*output_dir=*/{});
  const auto first = runner.FirstObservation(0);
  if (!first) {
    throw EnvError(
        "the env does not start with seed {}; choose another one with "
        "env_runner.test_start_seed, or give --episode",
        config.test_start_seed);
  }
  *name = fmt::format("first observation of seed {}", first->row.seed);
  return *first;
}

int InspectTheAttention(InspectVerbOptions options) {
  ChooseCheckpoint(&options.checkpoint);
  const bool is_of_checkpoint = options.experiment.config.empty() && options.experiment.env.empty();
  if (is_of_checkpoint) options.experiment.config = options.checkpoint / run::kConfigFile;
  const task::Experiment experiment(options.experiment);
  task::RejectUnknownKeys(experiment, {.makes_policy = true, .is_of_checkpoint = is_of_checkpoint});
  const auto policy = experiment.LoadPolicy(run::Checkpoint::Open(options.checkpoint), "ema");
  policy->module().eval();
  std::string observation;
  control::RecordedObs recorded;
  if (options.episode) {
    recorded = inspect::ObsOfDemonstration(*experiment.CreateDataset(), experiment.spec(),
                                           *options.episode, options.step);
    observation = fmt::format("demonstration {}, step {}", *options.episode, options.step);
  } else {
    recorded = FirstObsOfTestEpisode(experiment, &observation);
  }
  inspect::AttentionInspection inspection =
      inspect::InspectAttention(*policy, experiment.device(), recorded);
  inspection.policy = experiment.config().Sub("policy").Get<std::string>("plugin");
  inspection.task = experiment.name();
  inspection.observation = observation;
  Print(inspection, options.as_json);
  if (!options.html.empty()) inspect::WriteAttentionPage(inspection, options.html);
  return 0;
}

int InspectTheCheckpoint(InspectVerbOptions options) {
  ChooseCheckpoint(&options.checkpoint);
  plugin::PluginCatalogue catalogue = OpenCatalogue(options.experiment.plugin_dirs);
  const nlohmann::json inspection =
      inspect::InspectCheckpoint(options.checkpoint, catalogue, options.policy.n_levels);
  Print(inspection, inspect::CheckpointText, options.as_json);
  return inspect::HasNonFinite(inspection) ? 1 : 0;
}

int Show(const Dataset& dataset, const std::string& name, const InspectVerbOptions& options) {
  const inspect::DataInspection inspection = inspect::InspectData(dataset, name);
  Print(inspection, options.as_json);
  if (!options.html.empty()) inspect::WriteDataPage(inspection, options.html);
  return diagnose::HasProblems(inspection.faults) ? 1 : 0;
}

int InspectTheEnv(const task::Task& task, const InspectVerbOptions& options) {
  if (!options.html.empty()) {
    throw UsageError("--html writes a page about a dataset, and '{}' has none{}", task.name(),
                     task.is_collected() ? "; dp_bench collect makes one" : "; leave it out");
  }
  Print(inspect::EnvInspection{task.name(), task.env_name(), task.DescribeEnv()}, options.as_json);
  return 0;
}

int InspectTheData(const InspectVerbOptions& options) {
  const task::ExperimentOptions& asked = options.experiment;
  if (asked.env.empty() && asked.config.empty()) {
    plugin::PluginCatalogue catalogue = OpenCatalogue(asked.plugin_dirs);
    const auto dataset = task::OpenDataset(asked.dataset, options.reading, catalogue);
    return Show(*dataset, asked.dataset, options);
  }
  const task::Task task(asked);
  task::PrintReferences(task);
  const auto is_there = [](const task::Task* collected) {
    return data::FindCollection(collected->MakeCollectRequest()).has_value();
  };
  const bool is_missing =
      task.is_collected() && !std::ranges::all_of(task.CollectedTasks(), is_there);
  if (!task.has_dataset() || is_missing) return InspectTheEnv(task, options);
  const auto dataset = task::ProvideCheckedDataset(task, {});
  return dataset == nullptr ? core::kExitInterrupted : Show(*dataset, task.name(), options);
}

// Everything but a dataset alone has a config.
void RequireNoReading(const InspectVerbOptions& options) {
  const task::ExperimentOptions& asked = options.experiment;
  const bool has_config = !(asked.env.empty() && asked.config.empty() && asked.policy.empty() &&
                            options.checkpoint.empty());
  if (!has_config || (options.reading.keys.empty() && !options.reading.tolerance_s)) return;
  throw UsageError(
      "--keys and --tolerance are for --dataset alone; with a config, give "
      "dataset.params.keys and dataset.params.tolerance_s");
}

// Throws Error{kUsage} without a subject, and for options that the subject does not use, such as a
// second subject.
void RequireUsedBySubject(const CLI::App& verb, const InspectVerbOptions& options) {
  using Names = std::vector<std::string_view>;
  const task::ExperimentOptions& asked = options.experiment;
  const auto with_config = [](Names names) {
    names.insert(names.end(), {"--env", "--obs", "--task", "--config", "--dataset", "--isolate",
                               "--no-isolate", "--json", "overrides"});
    return names;
  };
  if (options.with_attention) {
    return RequireUsed(
        verb, "--attention",
        with_config({"--checkpoint", "--attention", "--episode", "--step", "--html", "--policy"}));
  }
  if (!options.checkpoint.empty()) {
    return RequireUsed(verb, "--checkpoint", {"--checkpoint", "--levels", "--json"});
  }
  if (!asked.policy.empty()) {
    return RequireUsed(
        verb, "--policy",
        with_config({"--policy", "--batch-size", "--batch-sizes", "--levels", "--check"}));
  }
  if (!asked.env.empty() || !asked.config.empty()) {
    return RequireUsed(verb, "of an env or its dataset", with_config({"--html"}));
  }
  if (asked.dataset.empty()) {
    throw UsageError(
        "nothing to inspect: give --policy and --env, --env, --dataset, or --checkpoint "
        "(see --help)");
  }
  RequireUsed(verb, "--dataset alone", {"--dataset", "--keys", "--tolerance", "--html", "--json"});
}

int Inspect(const CLI::App& verb, const InspectVerbOptions& options) {
  RequireNoReading(options);
  if (!options.html.empty() && !options.with_attention &&
      !(options.checkpoint.empty() && options.experiment.policy.empty())) {
    throw UsageError("--html writes a page about a dataset, or with --attention");
  }
  RequireUsedBySubject(verb, options);
  run::RequireResultFiles({{"--html", options.html, run::kInspectionPage}});
  if (options.with_attention) return InspectTheAttention(options);
  if (!options.checkpoint.empty()) return InspectTheCheckpoint(options);
  if (!options.experiment.policy.empty()) return InspectThePolicy(options);
  return InspectTheData(options);
}

}  // namespace

Verb AddInspect(CLI::App* app) {
  auto options = std::make_shared<InspectVerbOptions>();
  app->footer(kInspectDetails);
  const CLI::Range positive(1, 1 << 20);
  app->add_option("--policy", options->experiment.policy, "Method: configs/policy/<name>.json");
  AddTaskOptions(app, &options->experiment);
  app->add_option("--dataset", options->experiment.dataset,
                  "Path of a zarr, LeRobot or HDF5 dataset");
  AddReadingOptions(app, &options->reading);
  CLI::Option* checkpoint =
      AddFolder(app, "--checkpoint", &options->checkpoint, "Checkpoint or run folder");
  CLI::Option* attention = app->add_flag("--attention", options->with_attention,
                                         "With --checkpoint: what the action tokens look at")
                               ->needs(checkpoint);
  CLI::Option* episode =
      app->add_option("--episode", options->episode,
                      "With --attention: observe this demonstration of the dataset, from 0, "
                      "instead of the start of a test episode")
          ->needs(attention);
  app->add_option("--step", options->step, "With --episode: its step, from 0")
      ->needs(episode)
      ->capture_default_str();
  app->add_option("--html", options->html,
                  "Write a page about the dataset or the attention to this file");
  AddNumber(app, "--batch-size", &options->policy.batch_size, 1, 1 << 20,
            "Batch size for the shapes");
  AddList(app, "--batch-sizes", &options->policy.batch_sizes,
          "Batch sizes for the memory estimates")
      ->check(positive)
      ->capture_default_str();
  AddNumber(app, "--levels", &options->policy.n_levels, 1, 100, "Depth of the list of modules");
  app->add_option("--check", options->policy.checked_batch_size,
                  "Measure this batch size too; more than 10 % off the estimate is an error")
      ->check(positive);
  app->add_flag("--json", options->as_json, "Print JSON, memory in bytes");
  return [app, options] { return Inspect(*app, *options); };
}

}  // namespace dp_bench::app
