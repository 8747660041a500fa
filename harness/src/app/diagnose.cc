// dp_bench diagnose: finds out why a training or sampling does not work.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/verbs.h"
#include "config/document.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "core/output_file.h"
#include "data/collector.h"
#include "diagnose/diagnosis.h"
#include "planner/create_from_checkpoint.h"
#include "planner/policy_weights.h"
#include "run/result_files.h"
#include "run/run_files.h"
#include "task/key_check.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDiagnoseDetails =
    R"(Looks for problems and prints the evidence. For a config: demonstrations, their fit to the env,
normalizer, diffusion process, settings, and the first training updates. For a checkpoint also
weights, sampling and a few rollouts; for a run folder also the log. Runs on the CPU. Exit code 1: a
problem was found. --html and --markdown write a report: summary, hypotheses with evidence, key
findings, points to watch, advice, and conclusion.

--sampling is a quick look at a checkpoint: it plans a few chunks and prints for each denoising step
the ranges, the clipped values and how the predicted x_0 changes, and the error against recorded
chunks if the dataset is at hand; else the env supplies the observations.

Examples:
  dp_bench diagnose --policy unet_hybrid --env point_mass
  dp_bench diagnose runs/2026-11-21/10-00-00_unet_hybrid_pusht
  dp_bench diagnose runs/mine --html diagnosis.html --markdown diagnosis.md
  dp_bench diagnose --checkpoint models/pusht_unet_hybrid --dataset data/mine.zarr
  dp_bench diagnose --sampling models/pusht_unet_hybrid)";

struct DiagnoseVerbOptions {
  task::ExperimentOptions experiment;
  fs::path run;
  fs::path checkpoint;
  int n_rollouts = 8;
  bool as_json = false;
  bool is_of_sampling = false;
  fs::path html;
  fs::path markdown;
};

// An argument that is not "key=value" is the run or the checkpoint: `dp_bench diagnose runs/a`.
void TakePath(DiagnoseVerbOptions* options) {
  std::vector<std::string>& overrides = options->experiment.overrides;
  const auto is_path = [](const std::string& text) { return text.find('=') == std::string::npos; };
  const auto path = std::ranges::find_if(overrides, is_path);
  if (path == overrides.end()) return;
  if (!options->run.empty() || !options->checkpoint.empty()) {
    throw UsageError("'{}': --run or --checkpoint is given too; give only one", *path);
  }
  if (!fs::is_directory(*path)) {
    throw UsageError(
        "'{}' is neither the folder of a run or checkpoint nor a config value (key.key=value)",
        *path);
  }
  options->run = *path;
  overrides.erase(path);
}

// For a checkpoint of a training, adds its run, so that the log is checked too. For a run, adds the
// latest checkpoint, which belongs to the end of the log. The config is the checkpoint's, with the
// values of the command line.
DiagnoseVerbOptions Resolved(DiagnoseVerbOptions options) {
  TakePath(&options);
  if (!options.run.empty() && run::IsCheckpointFolder(options.run)) {
    options.checkpoint = options.run;
    options.run = run::FindRunOf(options.run);
  } else if (!options.run.empty()) {
    options.checkpoint = options.run;
    ChooseCheckpoint(&options.checkpoint, run::CheckpointOrder::kLatestFirst);
  } else {
    ChooseCheckpoint(&options.checkpoint);
  }
  if (options.checkpoint.empty()) return options;
  if (!options.experiment.config.empty()) {
    throw UsageError(
        "a checkpoint is diagnosed with its own config; found --config {}. Leave it out; change "
        "values as in env_runner.max_steps=100",
        options.experiment.config.string());
  }
  options.experiment.config = options.checkpoint / run::kConfigFile;
  return options;
}

std::optional<fs::path> Log(const DiagnoseVerbOptions& options) {
  const fs::path log = options.run / run::kTrainingLogFile;
  return options.run.empty() || !fs::exists(log) ? std::nullopt : std::optional(log);
}

// "unet_hybrid on pusht, runs/a"
std::string TitleOf(const DiagnoseVerbOptions& options, const task::Experiment& experiment) {
  const fs::path& subject = options.run.empty() ? options.checkpoint : options.run;
  const std::string title = fmt::format(
      "{} on {}", experiment.config().Sub("policy").Get<std::string>("plugin"), experiment.name());
  return subject.empty() ? title : fmt::format("{}, {}", title, subject.string());
}

void WriteReports(const diagnose::Diagnosis& diagnosis, const std::string& title,
                  const DiagnoseVerbOptions& options) {
  if (!options.html.empty()) diagnose::WriteDiagnosisPage(diagnosis, title, options.html);
  if (options.markdown.empty()) return;
  core::WriteOutput(options.markdown, diagnose::ToMarkdown(diagnosis, title));
}

// A checkpoint's own demonstrations are often not on this machine, and a few dozen show as much of
// it: no more are collected, unless the user asks for a number. Returns whether the checkpoint
// learned from more than there will be.
bool TakeSample(const fs::path& checkpoint, task::ExperimentOptions* asked) {
  constexpr int kEpisodes = 24;
  if (checkpoint.empty()) return false;
  const task::Task task(*asked);
  if (!task.is_collected()) return false;
  const Config trained =
      Config::FromJson(run::Checkpoint::Open(checkpoint).config(), run::kConfigFile);
  if (!trained.Has("collect")) return false;
  const int n_trained = data::CollectConfig::FromConfig(trained.Sub("collect")).n_episodes;
  const data::CollectRequest request = task.CollectedTasks().front()->MakeCollectRequest();
  if (const auto found = data::FindCollection(request)) return found->n_episodes < n_trained;
  if (request.config.n_episodes <= kEpisodes ||
      task.document().HasOverride("/collect/n_episodes")) {
    return request.config.n_episodes < n_trained;
  }
  asked->overrides.push_back(fmt::format("collect.n_episodes={}", kEpisodes));
  core::PrintStatus(
      "{} of the {} episodes that it was trained on are enough here; collect.n_episodes={} "
      "collects all\n",
      kEpisodes, n_trained, n_trained);
  return kEpisodes < n_trained;
}

// The dataset, if it exists on this machine.
std::unique_ptr<Dataset> DatasetAtHand(const task::Experiment& experiment) {
  const std::optional<fs::path> path = experiment.dataset_path();
  if (path && !fs::exists(*path)) return nullptr;
  return experiment.CreateDataset();
}

int RunSamplingDiagnosis(const DiagnoseVerbOptions& options) {
  if (options.checkpoint.empty()) {
    throw UsageError("--sampling needs a checkpoint: dp_bench diagnose --sampling CHECKPOINT");
  }
  const task::Experiment experiment(options.experiment);
  const std::unique_ptr<Dataset> dataset = DatasetAtHand(experiment);
  task::RejectUnknownKeys(experiment, {.makes_policy = true, .is_of_checkpoint = true});
  const run::Checkpoint checkpoint = run::Checkpoint::Open(options.checkpoint);
  const planner::Weights weights = planner::EvaluatedWeights(checkpoint);
  const std::unique_ptr<Policy> policy = planner::CreateFromCheckpoint(
      checkpoint, experiment.config(), experiment.catalogue(), weights);
  const diagnose::SamplingInspection inspection =
      diagnose::InspectSampling({.policy = *policy,
                                 .normalizer = planner::NormalizerOf(checkpoint),
                                 .config = experiment.config(),
                                 .dataset = dataset.get(),
                                 .make_env = [&experiment] { return experiment.CreateEnv(); }});
  core::PrintResult("{}", options.as_json ? diagnose::ToJson(inspection).dump(2) + "\n"
                                          : diagnose::ToText(inspection));
  return diagnose::HasProblems(inspection.findings) ? 1 : 0;
}

// Empty without an env, as for a policy of demonstrations alone.
rollout::EnvFactory EnvOf(const task::Experiment& experiment) {
  if (!experiment.has_env()) return {};
  return [&experiment] { return experiment.CreateEnv(); };
}

int RunDiagnosis(const DiagnoseVerbOptions& as_given) {
  const DiagnoseVerbOptions options = Resolved(as_given);
  if (options.is_of_sampling) return RunSamplingDiagnosis(options);
  run::RequireResultFiles({{"--html", options.html, run::kDiagnosisPage},
                           {"--markdown", options.markdown, run::kDiagnosisMarkdown}});
  const fs::path& folder = options.checkpoint;
  task::ExperimentOptions asked = options.experiment;
  const bool is_sample = TakeSample(folder, &asked);
  const task::Experiment experiment(asked);
  std::unique_ptr<Dataset> dataset;
  try {
    dataset = task::ProvideCheckedDataset(
        experiment, {.makes_policy = true, .is_of_checkpoint = !folder.empty()});
  } catch (Error& fault) {
    if (!folder.empty() && fault.code() == ErrorCode::kData) {
      fault.AddContext("--dataset PATH names another dataset, and --sampling needs none");
    }
    throw;
  }
  if (dataset == nullptr) return core::kExitInterrupted;
  std::optional<run::Checkpoint> checkpoint;
  if (!folder.empty()) checkpoint = run::Checkpoint::Open(folder);

  const auto make_policy = [&](const std::vector<std::string>& overrides) {
    if (overrides.empty()) return experiment.CreatePolicy();
    task::ExperimentOptions changed = asked;
    changed.overrides.insert(changed.overrides.end(), overrides.begin(), overrides.end());
    return task::Experiment(changed).CreatePolicy();
  };
  const diagnose::Diagnosis diagnosis =
      diagnose::Diagnose({.config = experiment.config(),
                          .spec = experiment.spec(),
                          .dataset = *dataset,
                          .make_policy = make_policy,
                          .make_env = EnvOf(experiment),
                          .checkpoint = checkpoint ? &*checkpoint : nullptr,
                          .log = Log(options),
                          .n_rollouts = options.n_rollouts,
                          .is_sample = is_sample});
  WriteReports(diagnosis, TitleOf(options, experiment), options);
  const diagnose::Findings& findings = diagnosis.findings;
  core::PrintResult("{}", options.as_json ? diagnose::ToJson(findings).dump(2) + "\n"
                                          : diagnose::ToText(findings));
  return diagnose::HasProblems(findings) ? 1 : 0;
}

}  // namespace

Verb AddDiagnose(CLI::App* app) {
  auto options = std::make_shared<DiagnoseVerbOptions>();
  app->footer(kDiagnoseDetails);
  AddExperimentOptions(app, &options->experiment);
  CLI::Option* run = AddFolder(app, "--run", &options->run,
                               "Run folder, with its latest checkpoint; --run may be omitted");
  AddFolder(app, "--checkpoint", &options->checkpoint, "Checkpoint folder")->excludes(run);
  CLI::Option* rollouts = AddNumber(app, "--rollouts", &options->n_rollouts, 0, 1000,
                                    "Episodes to roll out a checkpoint; 0: none");
  app->add_flag("--json", options->as_json, "Print JSON");
  CLI::Option* html = app->add_option("--html", options->html,
                                      "Write a report with evidence tables and plots to this file");
  CLI::Option* markdown =
      app->add_option("--markdown", options->markdown, "The same as Markdown, curves as tables");
  app->add_flag("--sampling", options->is_of_sampling,
                "Only what sampling with a checkpoint does, in a few seconds")
      ->excludes(html)
      ->excludes(markdown)
      ->excludes(rollouts);
  return [options] { return RunDiagnosis(*options); };
}

}  // namespace dp_bench::app
