// dp_bench train and dp_bench run: train or resume a policy; run then evaluates, records videos and
// reports.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "app/process.h"
#include "app/train_and_report.h"
#include "app/verbs.h"
#include "config/loader.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "core/progress.h"
#include "core/stop_signal.h"
#include "evaluate/predicted_cost.h"
#include "policy/device.h"
#include "run/checkpoint.h"
#include "run/result_files.h"
#include "run/run_files.h"
#include "task/dry_run.h"
#include "task/output_folder.h"
#include "task/sweep.h"
#include "train/resume_point.h"
#include "train/train_config.h"

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
  const char* missing = ranks.size() == 1 ? "this device has no" : "not every device has";
  core::LogInfo(fmt::format("training.mixed_precision: {}, because {} fast bfloat16 products",
                            precision, is_slow_somewhere ? missing : "there are"));
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

}  // namespace dp_bench::app
