// dp_bench train and dp_bench run: train or resume a policy; run goes on to evaluate, film and
// report.
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "app/collection.h"
#include "app/evaluate/evaluation.h"
#include "app/key_check.h"
#include "app/manifest.h"
#include "app/output_folder.h"
#include "app/ranks.h"
#include "app/stop_signal.h"
#include "app/train/dry_run.h"
#include "app/train/multi_run.h"
#include "app/verbs/verbs.h"
#include "config/loader.h"
#include "core/console.h"
#include "dp_bench/error.h"
#include "train/snapshot.h"
#include "train/train_config.h"
#include "train/workspace.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTrainExamples =
    R"(Examples:
  dp_bench train --policy unet_hybrid --env point_mass --output runs/mine
  dp_bench train --resume runs/mine
  dp_bench train --policy transformer --env pusht --dry-run training.num_epochs=100
  mpirun -n 2 dp_bench train --policy transformer --env kuavo_dualarm)";

constexpr const char* kRunExamples =
    R"(Examples:
  dp_bench run --policy transformer --env kuavo_dualarm
  dp_bench run --policy unet_hybrid --env pusht --seeds 42,43,44 training.num_epochs=100
  dp_bench run --resume runs/mine)";

struct TrainVerbOptions {
  ExperimentOptions experiment;
  fs::path output;
  fs::path resume;
  std::vector<std::uint64_t> seeds;
  bool is_dry_run = false;
};

std::shared_ptr<TrainVerbOptions> AddOptions(CLI::App* app) {
  auto options = std::make_shared<TrainVerbOptions>();
  AddExperimentOptions(app, &options->experiment);
  app->add_option("--output", options->output, "Run folder (default: runs/<date>/<time>_<name>)");
  app->add_option(
         "--resume", options->resume,
         "Run folder or snapshot to continue, with its own config; with --output, in a copy")
      ->check(CLI::ExistingDirectory);
  app->add_flag("--dry-run", options->is_dry_run,
                "Try every part of the config once, in seconds, and say what the run will need");
  return options;
}

// A resumed run is its folder: the config comes from there.
ExperimentOptions ResumeOptions(ExperimentOptions options, const fs::path& folder) {
  options.config = folder / "config.json";
  return options;
}

// Rank 0 collects; the others find what it left. False when it was interrupted.
bool ProvideDatasetOnce(const Experiment& experiment, const std::atomic<bool>& stop,
                        Communicator& ranks) {
  const bool is_there = !ranks.is_root() || ProvideDataset(experiment, stop);
  if (ranks.AllReduceMax(is_there ? 0 : 1) != 0) return false;
  return ranks.is_root() || ProvideDataset(experiment, stop);
}

// How and where it is trained.
struct TrainPlan {
  fs::path output;  // empty: a new folder
  bool is_resumed = false;
  bool with_report = false;             // evaluates the result and reports it
  std::function<void()> before_writes;  // when everything has been checked; may be empty
};

std::unique_ptr<OutputFolder> OpenOutput(const TrainPlan& plan, const Experiment& experiment,
                                         Communicator& ranks) {
  if (plan.output.empty()) return std::make_unique<OutputFolder>(experiment, ranks);
  return std::make_unique<OutputFolder>(
      plan.output, plan.is_resumed ? OldRun::kContinue : OldRun::kRefuse, ranks);
}

int TrainAndReport(ExperimentOptions options, const TrainPlan& plan, Communicator& ranks) {
  if (plan.is_resumed) options.overrides.insert(options.overrides.begin(), "training.resume=true");
  const Experiment experiment(options);
  const std::unique_ptr<OutputFolder> folder = OpenOutput(plan, experiment, ranks);
  const fs::path& output = folder->path();
  const std::atomic<bool>& stop = CatchStopSignals();
  std::atomic<bool>& snapshot = CatchSnapshotSignal();  // from here on it must not end the program
  // a collection may take hours: what can be checked without its data is checked before
  if (experiment.is_collected()) RejectUnknownKeys(experiment, {.makes_policy = true});
  if (!ProvideDatasetOnce(experiment, stop, ranks)) return kExitInterrupted;

  const std::unique_ptr<Dataset> dataset = experiment.CreateDataset();
  const auto logging = LoggingConfig::FromConfig(experiment.config().Sub("logging"));
  const fs::path rollout_folder = output / "rollouts";
  Evaluation rollouts(experiment, ranks, rollout_folder,
                      logging.tensorboard ? logging.n_rollouts : 0, TestSeeds::kSelection);
  Evaluation final_evaluation(experiment, ranks, output);
  Workspace workspace({.config = experiment.config(),
                       .dataset = *dataset,
                       .create_policy = [&] { return experiment.CreatePolicy(); },
                       .output_dir = output,
                       .stop = &stop,
                       .snapshot = &snapshot,
                       .ranks = &ranks});
  const torch::Device device = experiment.device();
  experiment.config().RejectUnread();
  if (plan.before_writes) plan.before_writes();
  folder->Begin();
  WriteRunHead(output, MakeManifest(experiment, ranks.size()), experiment.config(), ranks);

  const TrainReport report = workspace.Run([&](Policy& policy, int) -> std::optional<Scores> {
    const RunResult result = rollouts.Run(policy, device, {.stop = &stop});
    if (result.is_interrupted) return std::nullopt;
    Scores scores = {MetricsOf(result)};
    if (ranks.is_root()) scores.pictures = FilmStripsOf(result, rollout_folder);
    return scores;
  });
  if (report.end == TrainEnd::kInterrupted) {
    PrintResult("interrupted at step {}; continue with --resume {}\n", report.global_step,
                output.string());
    return kExitInterrupted;
  }
  PrintResult("trained {} steps in {}, {:.0f} samples/s\n", report.global_step,
              FormatDuration(report.seconds), report.samples_per_second);
  if (!plan.with_report) return 0;
  final_evaluation.SetNormalizer(workspace.normalizer());
  const RunResult result = final_evaluation.Run(workspace.eval_policy(), device, {.stop = &stop});
  if (result.is_interrupted) {
    PrintResult("interrupted in the evaluation; continue with --resume {}\n", output.string());
    return kExitInterrupted;
  }
  if (!ranks.is_root()) return 0;
  return ReportEvaluation(result, final_evaluation.RecordPlanning(workspace.eval_policy(), device),
                          output);
}

int RunWithSeeds(const TrainVerbOptions& options, Communicator& ranks) {
  const bool is_resumed = !options.resume.empty();
  const ExperimentOptions experiment =
      is_resumed ? ResumeOptions(options.experiment, options.resume) : options.experiment;
  const Experiment checked(experiment);
  const std::unique_ptr<OutputFolder> folder =
      OpenOutput({.output = is_resumed ? options.resume : options.output, .is_resumed = is_resumed},
                 checked, ranks);
  bool is_begun = false;
  const auto begin = [&](const std::function<void()>& write_summary) {
    if (std::exchange(is_begun, true)) return;
    folder->Begin();
    if (!ranks.is_root()) return;
    WriteResolvedConfig(checked.config(), folder->path() / "config.json");
    write_summary();
  };
  return RunSeeds(experiment, folder->path(), options.seeds, ranks,
                  [&](const ExperimentOptions& of_seed, const SeedTraining& run) {
                    return TrainAndReport(of_seed,
                                          {.output = run.folder,
                                           .is_resumed = run.is_resumed,
                                           .with_report = true,
                                           .before_writes = [&] { begin(run.write_summary); }},
                                          ranks);
                  });
}

// One rank is enough to try everything but the ranks.
int TryOnce(const TrainVerbOptions& options, Communicator& ranks) {
  if (!options.resume.empty()) throw Error(ErrorCode::kUsage, "--dry-run resumes nothing");
  if (!ranks.is_root()) return 0;
  SingleProcess alone;
  const fs::path parent = options.output.empty() ? "." : fs::absolute(options.output).parent_path();
  return DryRun(options.experiment, parent,
                [&alone](const ExperimentOptions& shortened, const fs::path& folder) {
                  return TrainAndReport(shortened, {.output = folder, .with_report = true}, alone);
                });
}

// --resume with --output: the copy is what is resumed.
TrainVerbOptions ContinuedElsewhere(TrainVerbOptions options, Communicator& ranks) {
  if (!options.seeds.empty()) {
    throw Error(ErrorCode::kUsage,
                "--resume with --output copies one training; give the folder of one seed");
  }
  if (ranks.is_root()) CreateFromSnapshot(options.resume, options.output);
  ranks.Barrier();
  options.resume = options.output;
  return options;
}

int Run(TrainVerbOptions options, bool with_report, Communicator& ranks) {
  CatchStopSignals();  // what loads until the first step must not end half way
  if (options.is_dry_run) return TryOnce(options, ranks);
  if (!options.resume.empty()) {
    if (!options.seeds.empty()) {
      throw Error(ErrorCode::kUsage, "--resume takes its seeds from the folder; leave --seeds out");
    }
    options.seeds = SeedsOf(options.resume);
    if (!options.output.empty()) options = ContinuedElsewhere(std::move(options), ranks);
  }
  if (!options.seeds.empty()) return RunWithSeeds(options, ranks);
  if (options.resume.empty()) {
    return TrainAndReport(options.experiment,
                          {.output = options.output, .with_report = with_report}, ranks);
  }
  return TrainAndReport(ResumeOptions(options.experiment, options.resume),
                        {.output = options.resume, .is_resumed = true, .with_report = with_report},
                        ranks);
}

}  // namespace

void AddIsolateOption(CLI::App* app, ExperimentOptions* options) {
  CLI::Option* isolate = app->add_flag_callback(
      "--isolate", [options] { options->isolate = true; },
      "Each env in a process of its own: what breaks it costs one episode (env_runner.isolate)");
  app->add_flag_callback(
         "--no-isolate", [options] { options->isolate = false; }, "All envs in this process")
      ->excludes(isolate);
}

void ChooseCheckpoint(fs::path* path, CheckpointOrder order) {
  if (path->empty()) return;
  const ChosenCheckpoint chosen = FindCheckpoint(*path, order);
  if (!chosen.reason.empty()) {
    PrintStatus("checkpoint: {}, {}\n", chosen.folder.string(), chosen.reason);
  }
  *path = chosen.folder;
}

void AddTaskOptions(CLI::App* app, ExperimentOptions* options) {
  app->add_option("--env", options->env, "Task: configs/task/<env>.json");
  app->add_option("--obs", options->obs, "Its observations: configs/task/<env>_<obs>.json");
  app->add_option("--task", options->task, "Which task, for envs with several (env.params.task)");
  app->add_option("--config", options->config, "Config file, before --policy and --env");
  app->add_option("--config-dir", options->config_dirs,
                  "Folder with task/ and policy/; may be repeated")
      ->allow_extra_args(false);
  app->add_option("--plugin-dir", options->plugin_dirs,
                  "Folder to search for plugins first; may be repeated")
      ->allow_extra_args(false);
  AddIsolateOption(app, options);
  app->add_option("overrides", options->overrides, "Config values: training.num_epochs=10");
}

void AddExperimentOptions(CLI::App* app, ExperimentOptions* options) {
  app->add_option("--policy", options->policy, "Method: configs/policy/<name>.json");
  app->add_option("--dataset", options->dataset,
                  "Path of a dataset, or configs/dataset/<name>.json");
  app->add_option("--device", options->device, "cpu, cuda, cuda:1 (training.device)");
  AddTaskOptions(app, options);
}

Verb AddTrain(CLI::App* app) {
  const auto options = AddOptions(app);
  app->footer(kTrainExamples);
  return [options] {
    return RunOnRanks(
        [&](Communicator& ranks) { return Run(*options, /*with_report=*/false, ranks); });
  };
}

Verb AddRun(CLI::App* app) {
  const auto options = AddOptions(app);
  app->footer(kRunExamples);
  app->add_option("--seeds", options->seeds,
                  "Training seeds: trains and evaluates each, and reports over all of them")
      ->delimiter(',')
      ->allow_extra_args(false);
  return [options] {
    return RunOnRanks(
        [&](Communicator& ranks) { return Run(*options, /*with_report=*/true, ranks); });
  };
}

}  // namespace dp_bench
