// dp_bench train and dp_bench run: train or resume a policy; run then evaluates, records videos and
// reports. dp_bench distill: consistency distillation of a trained diffusion policy, which is a
// training with the config of the teacher and a few keys changed.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/process.h"
#include "app/verbs.h"
#include "config/loader.h"
#include "core/atomic_file.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "core/json.h"
#include "core/shell.h"
#include "core/stop_signal.h"
#include "evaluate/evaluation.h"
#include "evaluate/predicted_cost.h"
#include "policy/device.h"
#include "run/checkpoint.h"
#include "run/manifest.h"
#include "run/result_files.h"
#include "run/run_files.h"
#include "task/collection.h"
#include "task/dry_run.h"
#include "task/key_check.h"
#include "task/output_folder.h"
#include "task/sweep.h"
#include "train/resume_point.h"
#include "train/train_config.h"
#include "train/workspace.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTrainExamples =
    R"(Examples:
  dp_bench train --policy unet_hybrid --env point_mass --output runs/mine
  dp_bench train --resume runs/mine
  dp_bench train --resume runs/mine --checkpoint epoch=0100
  dp_bench train --policy transformer --dataset data/mine.zarr
  dp_bench train --policy transformer --env pusht --dry-run training.num_epochs=100
  mpirun -n 2 dp_bench train --policy transformer --env kuavo_dualarm)";

constexpr const char* kRunExamples =
    R"(Examples:
  dp_bench run --policy transformer --env kuavo_dualarm
  dp_bench run --policy unet_hybrid --env pusht --seeds 42,43,44 training.num_epochs=100
  dp_bench run --config configs/experiment/mine.json 'multi_run.seeds=[42,43]'
  dp_bench run --resume runs/mine)";

struct TrainVerbOptions {
  task::ExperimentOptions experiment;
  fs::path output;
  fs::path resume;
  std::string checkpoint;  // to resume from; empty: the latest
  std::vector<std::uint64_t> seeds;
  bool is_dry_run = false;
  fs::path json;  // of the dry run
};

std::shared_ptr<TrainVerbOptions> AddOptions(CLI::App* app) {
  auto options = std::make_shared<TrainVerbOptions>();
  AddExperimentOptions(app, &options->experiment);
  app->add_option("--output", options->output, "Run folder (default: runs/<date>/<time>_<name>)");
  AddFolder(
      app, "--resume", &options->resume,
      "Run folder or snapshot to continue, with its own config, or a checkpoint in a run folder "
      "to continue from; with --output, in a copy");
  app->add_option("--checkpoint", options->checkpoint,
                  "With --resume: continue from this checkpoint instead of the latest one: its "
                  "name, the beginning of its name (epoch=0100), or its path. What came later is "
                  "kept in set_aside/")
      ->needs("--resume");
  app->add_flag("--dry-run", options->is_dry_run,
                "Try every part of the config once, in seconds, and estimate what the run needs");
  AddPredictionFile(app, &options->json);
  return options;
}

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

// Rank 0 collects; the others use its dataset. False if interrupted.
bool ProvideDatasetOnce(const task::Experiment& experiment, const std::atomic<bool>& stop,
                        core::Communicator& ranks) {
  const bool is_there = !ranks.is_root() || task::ProvideDataset(experiment, stop);
  if (ranks.AllReduceMax(is_there ? 0 : 1) != 0) return false;
  return ranks.is_root() || task::ProvideDataset(experiment, stop);
}

struct TrainPlan {
  fs::path output;  // empty: a new run folder
  bool is_resumed = false;
  fs::path checkpoint;                  // to continue from; empty: the latest
  bool with_report = false;             // also evaluates and reports
  bool is_tried = false;                // a dry run, which needs no env
  std::function<void()> before_writes;  // called when all checks have passed; may be empty
  fs::path of_seeds = {};               // the folder of all seeds that --resume continues, if any
};

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

std::unique_ptr<task::OutputFolder> OpenOutput(const TrainPlan& plan,
                                               const task::Experiment& experiment,
                                               core::Communicator& ranks) {
  if (plan.output.empty()) return std::make_unique<task::OutputFolder>(experiment, ranks);
  return std::make_unique<task::OutputFolder>(
      plan.output, plan.is_resumed ? task::OldRun::kContinue : task::OldRun::kRefuse, ranks);
}

void LogWithoutEnv(const task::Experiment& experiment) {
  std::string keys;
  for (const KeySpec& key : experiment.spec().shape_meta.obs) {
    keys += (keys.empty() ? "" : ", ") + key.name;
  }
  core::LogInfo(
      fmt::format("no env, so no rollouts; the policy observes {} (shape_meta.obs chooses). "
                  "Evaluate it with dp_bench eval --checkpoint RUN --env ENV",
                  keys));
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
  core::WriteFileAtomically(folder / run::kManifestFile, std::string_view(certified));
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
  const std::string manifest = task::MakeManifest(experiment, ranks.size());
  task::WriteRunHead(folder.path(), WithEarlierCertificate(manifest, folder.path()),
                     experiment.config(), ranks);
}

// What a run had evaluated before it trained on is of other weights.
void SetEvaluationAside(const fs::path& folder) {
  if (const auto aside = train::SetEvaluationAside(folder)) {
    core::LogInfo(
        fmt::format("the evaluation of the earlier weights is set aside in '{}'", aside->string()));
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
    const auto training = train::TrainingConfig::FromConfig(experiment.config().Sub("training"));
    if (plan.with_report || training.rollout_every > 0) {
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

int RunWithSeeds(const TrainVerbOptions& options, core::Communicator& ranks) {
  const bool is_resumed = !options.resume.empty();
  const task::ExperimentOptions experiment =
      is_resumed ? ResumeOptions(options.experiment, options.resume) : options.experiment;
  const task::Experiment checked(experiment);
  const std::unique_ptr<task::OutputFolder> folder =
      OpenOutput({.output = is_resumed ? options.resume : options.output, .is_resumed = is_resumed},
                 checked, ranks);
  bool is_begun = false;
  const auto begin = [&] {
    if (std::exchange(is_begun, true)) return;
    folder->Begin();
    if (!ranks.is_root()) return;
    config::WriteResolvedConfig(checked.config(), folder->path() / run::kConfigFile);
    task::WriteSeeds(folder->path(), options.seeds);
  };
  const auto train = [&](const task::SweepRun& run, task::SweepProgress progress) {
    task::ExperimentOptions of_seed = experiment;
    std::ranges::copy(run.overrides, std::back_inserter(of_seed.overrides));
    return TrainAndReport(of_seed,
                          {.output = run.folder,
                           .is_resumed = progress == task::SweepProgress::kBegun,
                           .with_report = true,
                           .before_writes = begin,
                           .of_seeds = folder->path()},
                          ranks);
  };
  const int exit_code = task::RunSweep(task::SeedRuns(folder->path(), options.seeds),
                                       task::DoneRuns::kSkip, ranks, train);
  if (exit_code != core::kExitInterrupted && ranks.is_root()) {
    task::ReportSeeds(folder->path(), options.seeds);
  }
  return exit_code;
}

// One rank is enough for a dry run. A file has the evaluation also if the verb has none.
int TryOnce(const TrainVerbOptions& options, bool with_report, core::Communicator& ranks) {
  if (!options.resume.empty()) throw UsageError("--dry-run cannot resume");
  run::RequireResultFiles({{"--json", options.json, run::kPredictionJson}});
  if (!ranks.is_root()) return 0;
  core::SingleProcess alone;
  const fs::path parent = options.output.empty() ? "." : fs::absolute(options.output).parent_path();
  run::CostPredictions costs;
  const int exit_code = task::DryRun(
      options.experiment, parent,
      std::max<std::size_t>(1, task::SeedRuns(parent, options.seeds).size()),
      [&alone](const task::ExperimentOptions& shortened, const fs::path& folder) {
        return TrainAndReport(shortened, {.output = folder, .with_report = true, .is_tried = true},
                              alone);
      },
      &evaluate::PredictEvaluation, &costs);
  if (exit_code != 0) return exit_code;
  if (!options.json.empty()) run::WritePredictions(options.json, costs);
  if (!with_report) costs.erase(run::kPredictedEvaluation);
  const run::CostPrediction sum = run::Sum(costs);
  core::PrintResult("time    {:>9} on a machine as busy as now, processor time {}, from {}\n",
                    core::FormatDuration(sum.wall_s), core::FormatDuration(sum.cpu_s), sum.tried);
  return 0;
}

int Resume(const task::ExperimentOptions& options, const TrainPlan& plan,
           core::Communicator& ranks) {
  return TrainAndReport(ResumeOptions(options, plan.output), plan, ranks);
}

// --resume with --output resumes a copy, which goes again if that is refused.
int ResumeCopy(const TrainVerbOptions& options, const train::ResumePoint& point, TrainPlan plan,
               core::Communicator& ranks) {
  bool is_begun = false;
  plan.output = options.output;
  plan.before_writes = [&is_begun] { is_begun = true; };
  if (ranks.is_root()) {
    train::CreateFromSnapshot(point.run_folder, plan.output, point.checkpoint);
  }
  ranks.Barrier();
  try {
    return Resume(options.experiment, plan, ranks);
  } catch (...) {
    if (!is_begun && ranks.is_root()) core::RemoveAll(plan.output);
    throw;
  }
}

// Whether the command line changes more of the folder's config than where things are, what is
// saved, and what the machine can do.
bool ChangesResults(const TrainVerbOptions& options) {
  const auto portable = [&](const task::ExperimentOptions& changes) {
    const task::Experiment experiment(ResumeOptions(changes, options.resume));
    auto config = run::WithoutMachineKeys(nlohmann::json::parse(experiment.config().ToJson()));
    for (const char* key : {"/training/device", "/training/teacher/path", "/dataset/params/path",
                            "/policy/params/gradient_checkpointing", "/checkpoint", "/logging"}) {
      const nlohmann::json::json_pointer place(key);
      if (config.contains(place)) config.at(place.parent_pointer()).erase(place.back());
    }
    return config;
  };
  task::ExperimentOptions unchanged = options.experiment;
  unchanged.overrides.clear();
  return portable(options.experiment) != portable(unchanged);
}

// The seeds of a run over several; none for a single run.
std::vector<std::uint64_t> SeedsToResume(const TrainVerbOptions& options) {
  const bool has_section =
      fs::exists(options.resume / run::kConfigFile) &&
      task::MultiRunOf(ResumeOptions(options.experiment, options.resume)).has_value();
  if (!options.seeds.empty() || has_section) {
    throw UsageError("--resume takes its seeds from the folder; omit --seeds and multi_run");
  }
  std::vector<std::uint64_t> seeds = task::SeedsOf(options.resume);
  if (seeds.empty()) return seeds;
  if (!options.checkpoint.empty()) {
    throw UsageError("--checkpoint is of one training; give the folder of one seed");
  }
  if (!options.output.empty()) {
    throw UsageError("--resume with --output copies one training; give the folder of one seed");
  }
  bool has_finished = false;
  for (const task::SweepRun& run : task::SeedRuns(options.resume, seeds)) {
    const task::SweepProgress progress = task::ProgressOf(run.folder);
    if (progress == task::SweepProgress::kBegun) train::RequireTraining(run.folder);
    has_finished = has_finished || progress == task::SweepProgress::kDone;
  }
  if (has_finished && ChangesResults(options)) {
    throw UsageError(
        "--resume of several seeds cannot change their results, because a seed that is finished "
        "keeps its own; found {}. Resume without it, or begin again in another --output",
        fmt::join(options.experiment.overrides, " "));
  }
  return seeds;
}

// The section multi_run does the same as the options. `train` trains one seed.
void TakeMultiRun(bool trains_seeds, TrainVerbOptions* options) {
  const auto multi_run = task::MultiRunOf(options->experiment);
  if (!multi_run) return;
  if (!trains_seeds) {
    core::LogWarning("the section multi_run is for `dp_bench run`; `train` trains training.seed");
    return;
  }
  if (options->seeds.empty()) options->seeds = multi_run->seeds;
  if (options->output.empty()) options->output = multi_run->run_dir;
}

// training.mixed_precision=auto becomes bf16 where the devices of all ranks multiply bfloat16 fast,
// else no; so the run's config.json says which it was.
void ResolvePrecision(task::ExperimentOptions* options, core::Communicator& ranks) {
  const task::Experiment experiment(*options);
  if (!train::IsAutoPrecision(experiment.config().Sub("training"))) return;
  const bool is_slow = !policy::HasFastBfloat16(experiment.device());
  const bool is_slow_somewhere = ranks.AllReduceMax(is_slow ? 1 : 0) != 0;
  const char* precision = is_slow_somewhere ? "no" : "bf16";
  options->overrides.push_back(fmt::format("training.mixed_precision={}", precision));
  if (!ranks.is_root()) return;
  core::LogInfo(fmt::format("training.mixed_precision: {}, because {} fast bfloat16 products",
                            precision, is_slow_somewhere ? "not every device has" : "there are"));
}

int Run(TrainVerbOptions options, bool with_report, core::Communicator& ranks) {
  core::CatchStopSignals();  // signals must not end the program while it loads
  if (options.resume.empty()) {
    TakeMultiRun(with_report, &options);
    ResolvePrecision(&options.experiment, ranks);
  }
  if (options.is_dry_run) return TryOnce(options, with_report, ranks);
  if (!options.resume.empty()) options.seeds = SeedsToResume(options);
  if (!options.seeds.empty()) return RunWithSeeds(options, ranks);
  if (options.resume.empty()) {
    return TrainAndReport(options.experiment,
                          {.output = options.output, .with_report = with_report}, ranks);
  }
  const train::ResumePoint point = train::FindResumePoint(options.resume, options.checkpoint);
  TrainPlan plan = {.output = point.run_folder, .is_resumed = true, .with_report = with_report};
  if (!options.output.empty()) return ResumeCopy(options, point, plan, ranks);
  plan.checkpoint = point.checkpoint;
  return Resume(options.experiment, plan, ranks);
}

constexpr const char* kDistillExamples =
    R"(Examples:
  dp_bench distill --checkpoint runs/mine --output runs/mine_fast training.num_epochs=50
  dp_bench train --resume runs/mine_fast
  dp_bench eval --checkpoint runs/mine_fast policy.params.consistency.num_inference_steps=2)";

// A student gets what its teacher observes.
void RequireObservationsOfTeacher(const std::vector<std::string>& overrides) {
  for (const std::string& text : overrides) {
    for (const char* key : {"policy.params.augmentation", "policy.params.crop_",
                            "policy.params.resize_", "policy.params.obs_encoder", "normalizer"}) {
      if (!text.starts_with(key)) continue;
      throw UsageError("{}: a student observes as its teacher does; leave it out", text);
    }
  }
}

struct DistillVerbOptions {
  task::ExperimentOptions experiment;
  fs::path checkpoint;
  fs::path output;
  std::string weights = "ema";
};

// What differs between the training of the teacher and that of the student.
std::vector<std::string> ChangesOf(const DistillVerbOptions& options) {
  const run::Checkpoint teacher = run::Checkpoint::Open(options.checkpoint);
  const nlohmann::json config = core::ParseJson(
      teacher.config(), (options.checkpoint / run::kConfigFile).string(), ErrorCode::kCheckpoint);
  const bool denoises = core::ValueAt(config, "/policy/params/noise_scheduler").is_object();
  const std::string objective =
      core::TextAt(config, "/policy/params/objective", denoises ? "diffusion" : "");
  if (objective != "diffusion") {
    throw UsageError(
        "--checkpoint: expected a policy with objective diffusion, found {}",
        objective.empty() ? "policy " + core::TextAt(config, "/policy/plugin", "none") : objective);
  }
  const nlohmann::json section = {{"path", fs::absolute(options.checkpoint).string()},
                                  {"weights", options.weights}};
  std::vector<std::string> changes = {"policy.params.objective=consistency",
                                      "policy.params.loss_weighting=none",
                                      "policy.params.loss_weighting_table=null",
                                      "training.resume=false",
                                      "training.use_ema=true",
                                      "training.teacher=" + section.dump(),
                                      "ema.max_value=0.99"};
  // what one evaluation needs at the highest noise level cannot be computed from predicted noise
  if (core::TextAt(config, "/policy/params/noise_scheduler/prediction_type", "epsilon") ==
      "epsilon") {
    changes.emplace_back("policy.params.noise_scheduler.prediction_type=v_prediction");
  }
  return changes;
}

int Distill(DistillVerbOptions options, core::Communicator& ranks) {
  core::CatchStopSignals();  // signals must not end the program while it loads
  if (ranks.is_root()) ChooseCheckpoint(&options.checkpoint);
  options.checkpoint = ranks.FromRoot(options.checkpoint.string());
  std::vector<std::string>& overrides = options.experiment.overrides;
  RequireObservationsOfTeacher(overrides);
  const std::vector<std::string> changes = ChangesOf(options);
  overrides.insert(overrides.begin(), changes.begin(), changes.end());
  options.experiment.config = options.checkpoint / run::kConfigFile;
  return TrainAndReport(options.experiment, {.output = options.output}, ranks);
}

}  // namespace

Verb AddTrain(CLI::App* app) {
  const auto options = AddOptions(app);
  app->footer(kTrainExamples);
  return [options] {
    return RunOnRanks(
        [&](core::Communicator& ranks) { return Run(*options, /*with_report=*/false, ranks); });
  };
}

Verb AddRun(CLI::App* app) {
  const auto options = AddOptions(app);
  app->footer(kRunExamples);
  app->add_option_function<std::vector<std::string>>(
         "--seeds", [options](const auto& texts) { options->seeds = ParseSeeds("--seeds", texts); },
         "Training seeds, as in 42,43: trains and evaluates each, and reports on all of them")
      ->allow_extra_args(false);
  return [options] {
    return RunOnRanks(
        [&](core::Communicator& ranks) { return Run(*options, /*with_report=*/true, ranks); });
  };
}

Verb AddDistill(CLI::App* app) {
  const auto options = std::make_shared<DistillVerbOptions>();
  app->footer(kDistillExamples);
  AddFolder(app, "--checkpoint", &options->checkpoint,
            "Teacher: checkpoint folder, or run folder (its best or else latest checkpoint), "
            "of a policy with objective diffusion and sampler ddim")
      ->required();
  AddWeightsOption(app, &options->weights);
  app->add_option("--output", options->output, "Run folder (default: runs/<date>/<time>_<name>)");
  AddDeviceOption(app, &options->experiment.device);
  AddIsolateOption(app, &options->experiment);
  AddPluginDirOption(app, &options->experiment.plugin_dirs);
  app->add_option("overrides", options->experiment.overrides,
                  "Changes to the teacher's config: training.num_epochs=50");
  return [options] {
    return RunOnRanks([&](core::Communicator& ranks) { return Distill(*options, ranks); });
  };
}

}  // namespace dp_bench::app
