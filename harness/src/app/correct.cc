// dp_bench correct: trains the head that corrects a policy's chunks at every control step.
#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>

#include "app/verbs.h"
#include "config/document.h"
#include "core/console.h"
#include "core/exit_code.h"
#include "core/progress.h"
#include "core/stop_signal.h"
#include "data/sequence_sampler.h"
#include "data/split.h"
#include "planner/policy_weights.h"
#include "run/checkpoint.h"
#include "run/result_files.h"
#include "run/run_files.h"
#include "run/safetensors.h"
#include "task/experiment.h"
#include "task/key_check.h"
#include "train/batches.h"
#include "train/correction_training.h"
#include "train/train_config.h"

namespace dp_bench::app {
namespace {

constexpr const char* kCorrectExamples =
    R"(Examples:
  dp_bench correct --checkpoint runs/mine --output runs/mine/a2c2.safetensors
  dp_bench correct --checkpoint runs/mine --teacher plans --output runs/mine/a2c2.safetensors dataset.params.path=data/rollouts.zarr
  dp_bench eval --checkpoint runs/mine env_runner.chunking.method=a2c2 env_runner.chunking.corrector=runs/mine/a2c2.safetensors env_runner.chunking.delay=4)";

constexpr const char* kDemonstrations = "demonstrations";
constexpr const char* kPlans = "plans";

struct CorrectVerbOptions {
  task::ExperimentOptions experiment;
  std::filesystem::path checkpoint;
  std::string weights = "ema";
  std::filesystem::path output;
  std::string teacher = kDemonstrations;
  train::CorrectionTrainingOptions training;
};

// Training sequences with all their observations.
data::BatchLoader LoaderFor(const task::Experiment& experiment, const Dataset& dataset,
                            const Policy& policy, const train::CorrectionTrainingOptions& options) {
  const PolicySpec& spec = policy.spec();
  const auto split_config = train::SplitConfig::FromConfig(experiment.config().Sub("dataset"));
  const data::Split split = data::SplitEpisodes(
      static_cast<std::int64_t>(dataset.episode_ends().size()), split_config.val_ratio,
      split_config.max_train_episodes, split_config.seed);
  data::RequireSequences(dataset, spec.horizons, split.train);
  train::DataLoaderConfig config;
  config.batch_size = options.batch_size;
  data::BatchLoaderOptions loading = train::LoaderOptions(policy, config);
  loading.n_obs_steps = spec.horizons.horizon;
  loading.seed = options.seed;
  return {dataset, data::MakeTrainingSampler(dataset, spec.horizons, split.train), loading};
}

int Correct(CorrectVerbOptions options) {
  run::RequireResultFiles({{"--output", options.output, run::kCorrectionHead}});
  ChooseCheckpoint(&options.checkpoint);
  if (options.teacher == kPlans) options.training.teacher = train::CorrectionTeacher::kPlans;
  options.experiment.config = options.checkpoint / run::kConfigFile;
  const task::Experiment experiment(options.experiment);
  for (const char* place : {"/optimizer", "/ema", "/dataloader", "/val_dataloader",
                            "/training/seed", "/training/num_epochs", "/normalizer"}) {
    if (!experiment.document().HasOverride(place)) continue;
    throw UsageError("correct does not use {}; its options are --steps, --hidden and --seed",
                     config::DottedKey(place));
  }
  const std::unique_ptr<Policy> policy = experiment.LoadPolicy(options.checkpoint, options.weights);
  const std::unique_ptr<Dataset> dataset = task::ProvideCheckedDataset(
      experiment,
      {.makes_policy = true, .is_of_checkpoint = true, .uses_env = experiment.is_collected()});
  if (dataset == nullptr) return core::kExitInterrupted;
  const std::atomic<bool>& is_stopped = core::CatchStopSignals();
  data::BatchLoader loader = LoaderFor(experiment, *dataset, *policy, options.training);
  core::Progress progress(core::Progress::StandardError(), 0);
  bool is_interrupted = false;
  const ArrayMap tensors = train::TrainCorrection(
      *policy, planner::NormalizerOf(run::Checkpoint::Open(options.checkpoint)), loader,
      options.training, [&](int step, double loss) {
        progress.Update({.done = step, .total = options.training.n_steps, .unit = "steps"},
                        "correction", fmt::format("loss {:.4f}", loss));
        is_interrupted = is_stopped;
        return !is_interrupted;
      });
  progress.Pause();
  if (is_interrupted) {
    core::PrintResult("interrupted; {} was not written\n", options.output.string());
    return core::kExitInterrupted;
  }
  run::WriteSafetensors(options.output, tensors);
  core::PrintResult(
      "{}\nevaluate with env_runner.chunking.method=a2c2 env_runner.chunking.corrector={}\n",
      options.output.string(), options.output.string());
  return 0;
}

}  // namespace

Verb AddCorrect(CLI::App* app) {
  const auto options = std::make_shared<CorrectVerbOptions>();
  app->footer(kCorrectExamples);
  AddFolder(app, "--checkpoint", &options->checkpoint,
            "Checkpoint folder, or run folder (its best or else latest checkpoint), of the policy "
            "to correct, which stays as it is")
      ->required();
  AddWeightsOption(app, &options->weights);
  app->add_option("--output", options->output, "The file to write, such as a2c2.safetensors")
      ->required();
  AddChoice(app, "--teacher", &options->teacher, {kDemonstrations, kPlans},
            "What the head learns from: the actions of the dataset, or for each step the first "
            "action of a new plan, which also fits a dataset of the policy's own rollouts "
            "(`eval --record-dataset`)");
  AddNumber(app, "--steps", &options->training.n_steps, 1, 10'000'000, "Training steps");
  AddNumber(app, "--hidden", &options->training.n_hidden, 1, 65'536,
            "Width of its two hidden layers");
  app->add_option("--seed", options->training.seed, "Of the weights and the batches")
      ->capture_default_str();
  AddDeviceOption(app, &options->experiment.device);
  AddIsolateOption(app, &options->experiment);
  AddPluginDirOption(app, &options->experiment.plugin_dirs);
  app->add_option("overrides", options->experiment.overrides,
                  "Changes to the policy's config: dataset.params.path=data/mine.zarr");
  return [options] { return Correct(*options); };
}

}  // namespace dp_bench::app
