// A training from its checks to the report of its evaluation.
#include "app/train_and_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/atomic_file.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "core/json.h"
#include "core/machine.h"
#include "core/progress.h"
#include "core/shell.h"
#include "core/stop_signal.h"
#include "evaluate/evaluation.h"
#include "run/checkpoint.h"
#include "run/manifest.h"
#include "run/run_files.h"
#include "task/collection.h"
#include "task/key_check.h"
#include "train/resume_point.h"
#include "train/train_config.h"
#include "train/workspace.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

// Rank 0 collects; the others use its dataset. False if interrupted.
bool ProvideDatasetOnce(const task::Experiment& experiment, const std::atomic<bool>& stop,
                        core::Communicator& ranks) {
  const bool is_there = !ranks.is_root() || task::ProvideDataset(experiment, stop);
  if (ranks.AllReduceMax(is_there ? 0 : 1) != 0) return false;
  return ranks.is_root() || task::ProvideDataset(experiment, stop);
}

// What the command line changes must not change what the checkpoints were trained on.
void RequireSameTraining(const task::Experiment& experiment, const task::ExperimentOptions& options,
                         const fs::path& run_folder) {
  if (!run::CheckpointStore(run_folder / run::kCheckpointsFolder).HasCheckpoints()) return;
  task::ExperimentOptions of_run;
  of_run.plugin_dirs = options.plugin_dirs;
  std::ranges::copy_if(  // where the env is
      options.overrides, std::back_inserter(of_run.overrides),
      [](const std::string& text) { return text.starts_with("env.params.python="); });
  const task::Experiment before(ResumeOptions(of_run, run_folder));
  // reads the defaults of keys that the run's version did not have
  task::RejectUnknownKeys(before, {.makes_policy = true, .is_before_dataset = true});
  train::RequireSameTraining(nlohmann::json::parse(before.config().ToJson()),
                             nlohmann::json::parse(experiment.config().ToJson()));
}

void LogWithoutEnv(const task::Experiment& experiment) {
  std::string keys;
  for (const KeySpec& key : experiment.spec().shape_meta.obs) {
    keys += (keys.empty() ? "" : ", ") + key.name;
  }
  core::LogInfo(
      "no env, so no rollouts; the policy observes {} (shape_meta.obs chooses). Evaluate it with "
      "dp_bench eval --checkpoint RUN --env ENV",
      keys);
}

// With the certificate of the env that the run has, if it is of the same plugins.
std::string WithEarlierCertificate(const std::string& manifest, const fs::path& folder) {
  if (!fs::exists(folder / run::kManifestFile)) return manifest;
  const nlohmann::json before = core::TryParseJson(run::ReadRunManifest(folder));
  nlohmann::json now = nlohmann::json::parse(manifest);
  const nlohmann::json certificate =
      core::ValueAt(before, fmt::format("/{}", run::kDeterminismKey));
  if (certificate.is_null() ||
      core::ValueAt(before, "/plugins") != core::ValueAt(now, "/plugins")) {
    return manifest;
  }
  now[run::kDeterminismKey] = certificate;
  return now.dump(2) + "\n";
}

// Before the evaluation of a training. With several ranks, the root does it.
void Certify(const task::Experiment& experiment, const fs::path& folder) {
  const std::string manifest = run::ReadRunManifest(folder);
  if (core::TryParseJson(manifest).contains(run::kDeterminismKey)) return;
  const std::string certified = task::WithCertificate(experiment, manifest);
  if (certified == manifest) return;
  core::WriteFileAtomically(folder / run::kManifestFile, certified);
}

// The first changes to the run folder, after all checks. Rank 0 makes them; the others wait in
// OutputFolder::Begin.
void BeginRun(const TrainPlan& plan, const task::Experiment& experiment, task::OutputFolder& folder,
              core::Communicator& ranks) {
  if (plan.before_writes) plan.before_writes();
  if (!plan.checkpoint.empty() && ranks.is_root()) {
    train::RewindRun(folder.path(), run::Checkpoint::Open(plan.checkpoint));
  }
  folder.Begin();
  std::string manifest = task::MakeManifest(experiment, ranks.size());
  if (ranks.is_root()) manifest = task::WithDemonstrations(experiment, manifest);
  task::WriteRunHead(folder.path(), WithEarlierCertificate(manifest, folder.path()),
                     experiment.config(), ranks);
}

// What a run had evaluated before it trained on is of other weights.
void SetEvaluationAside(const fs::path& folder) {
  if (const auto aside = train::SetEvaluationAside(folder)) {
    core::LogInfo("the evaluation of the earlier weights is set aside in '{}'", aside->string());
  }
}

// Prints how the training ended; `resuming`: the command that continues it. Returns the exit code.
int ReportTraining(const train::TrainReport& report, const std::string& resuming) {
  if (report.end == train::TrainEnd::kInterrupted) {
    core::PrintResult("interrupted at step {}; continue with {}\n", report.global_step, resuming);
    return core::kExitInterrupted;
  }
  if (report.n_steps == 0) {
    const bool is_cut = report.end == train::TrainEnd::kOutOfTime;
    core::PrintResult("nothing left to train: {} steps were done before{}\n", report.global_step,
                      is_cut ? ", and training.max_minutes is over; raise it to train on" : "");
    return 0;
  }
  const bool is_all = report.n_steps == report.global_step;
  core::PrintResult("trained {}{} steps in {}{}, {:.0f} samples/s\n", report.n_steps,
                    is_all ? "" : " more", core::FormatDuration(report.seconds),
                    is_all ? "" : fmt::format(", {} in all", report.global_step),
                    report.samples_per_second);
  return 0;
}

// The evaluation of a finished training. Returns the exit code.
int EvaluateTrained(evaluate::Evaluation& evaluation, train::Workspace& workspace,
                    torch::Device device, const fs::path& output, const std::string& resuming,
                    core::CostMeter& meter, core::Communicator& ranks) {
  evaluation.SetNormalizer(workspace.normalizer());
  const run::RunResult result =
      evaluation.Run(workspace.eval_policy(), device, {.stop = &core::CatchStopSignals()});
  evaluate::RecordCost(meter, output, ranks);
  if (result.is_interrupted) {
    core::PrintResult("interrupted in the evaluation; continue with {}\n", resuming);
    return core::kExitInterrupted;
  }
  if (!ranks.is_root()) return 0;
  return evaluate::ReportEvaluation(
      result, evaluation.MeasureLatency(workspace.eval_policy(), device), output);
}

// The rollouts between two epochs.
train::EvalFn RolloutsOf(evaluate::Evaluation& rollouts, torch::Device device,
                         const fs::path& folder, bool has_images, const core::Communicator& ranks) {
  return [&rollouts, device, folder, has_images, &ranks](Policy& policy,
                                                         int) -> std::optional<train::Scores> {
    const run::RunResult result = rollouts.Run(policy, device, {.stop = &core::CatchStopSignals()});
    if (result.is_interrupted) return std::nullopt;
    train::Scores scores = {evaluate::MetricsOf(result)};
    if (ranks.is_root() && has_images) scores.images = evaluate::VideoStripsOf(result, folder);
    return scores;
  };
}

}  // namespace

// The config of a resumed run comes from its folder. Throws Error{kUsage} if another one is given.
task::ExperimentOptions ResumeOptions(task::ExperimentOptions options, const fs::path& folder) {
  if (!options.config.empty()) {
    throw UsageError(
        "--resume continues with the config of '{}'; found --config {}. Leave it out, and change "
        "values as in training.num_epochs=10",
        folder.string(), options.config.string());
  }
  options.config = folder / run::kConfigFile;
  return options;
}

std::unique_ptr<task::OutputFolder> OpenOutput(const TrainPlan& plan,
                                               const task::Experiment& experiment,
                                               core::Communicator& ranks) {
  if (plan.output.empty()) return std::make_unique<task::OutputFolder>(experiment, ranks);
  return std::make_unique<task::OutputFolder>(
      plan.output, plan.is_resumed ? task::OldRun::kContinue : task::OldRun::kRefuse, ranks);
}

int TrainAndReport(task::ExperimentOptions options, const TrainPlan& plan,
                   core::Communicator& ranks) {
  core::CostMeter meter;
  if (plan.is_resumed) options.overrides.insert(options.overrides.begin(), "training.resume=true");
  const task::Experiment experiment(options);
  if (plan.with_report && !plan.is_tried) experiment.env_name();  // throws without an env
  const std::unique_ptr<task::OutputFolder> folder = OpenOutput(plan, experiment, ranks);
  const fs::path& output = folder->path();
  const std::atomic<bool>& stop = core::CatchStopSignals();
  std::atomic<bool>& snapshot =
      core::CatchSnapshotSignal();  // from now on, the signal must not end the program
  // collecting and reading may take hours, so check first what needs no data
  task::RejectUnknownKeys(experiment, {.makes_policy = true, .is_before_dataset = true});
  if (plan.is_resumed) RequireSameTraining(experiment, options, output);
  const auto logging = train::LoggingConfig::FromConfig(experiment.config().Sub("logging"));
  const fs::path rollout_folder = output / "rollouts";
  std::optional<evaluate::Evaluation> rollouts;
  std::optional<evaluate::Evaluation> last;
  if (experiment.has_env()) {
    rollouts.emplace(experiment, ranks, rollout_folder, logging.n_rollouts,
                     evaluate::TestSeeds::kSelection);
    last.emplace(experiment, ranks, output);
    if (experiment.training().rollout_every > 0 || plan.with_report) {
      rollouts->RequirePlannable(*experiment.CreatePolicy(), experiment.device());
    }
  } else {
    LogWithoutEnv(experiment);
  }
  if (!ProvideDatasetOnce(experiment, stop, ranks)) return core::kExitInterrupted;

  const std::unique_ptr<Dataset> dataset = experiment.CreateDataset();
  const std::unique_ptr<Policy> teacher = experiment.LoadTeacher();
  train::Workspace workspace({.config = experiment.config(),
                              .dataset = *dataset,
                              .create_policy = [&] { return experiment.CreatePolicy(); },
                              .output_dir = output,
                              .stop = &stop,
                              .snapshot = &snapshot,
                              .ranks = &ranks,
                              .resume_from = plan.checkpoint,
                              .teacher = teacher.get()});
  const torch::Device device = experiment.device();
  task::RejectUnknownKeys(experiment, {.makes_policy = true, .makes_dataset = true});
  workspace.Prepare();
  BeginRun(plan, experiment, *folder, ranks);
  const train::TrainReport report = workspace.Run(
      rollouts ? RolloutsOf(*rollouts, device, rollout_folder, logging.tensorboard, ranks)
               : train::EvalFn());
  if (report.n_steps > 0 && ranks.is_root()) SetEvaluationAside(output);
  const bool is_over = !plan.with_report || !last || report.end == train::TrainEnd::kInterrupted;
  if (is_over) evaluate::RecordCost(meter, output, ranks);
  const std::string resuming =
      fmt::format("dp_bench {} --resume {}", plan.with_report ? "run" : "train",
                  core::ShellWord((plan.of_seeds.empty() ? output : plan.of_seeds).string()));
  const int exit_code = ReportTraining(report, resuming);
  if (is_over) return exit_code;
  if (ranks.is_root() && !plan.is_tried) Certify(experiment, output);
  return EvaluateTrained(*last, workspace, device, output, resuming, meter, ranks);
}

}  // namespace dp_bench::app
