// dp_bench profile: shows where the time goes, and what to change. dp_bench bench: the speed of an
// env or a dataset on this machine. Each figure is the median of several repetitions. Compare
// ratios within one run; absolute figures depend on the machine.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "app/verbs.h"
#include "config/loader.h"
#include "core/clock.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "core/output_file.h"
#include "core/progress.h"
#include "data/loader.h"
#include "data/sequence_sampler.h"
#include "dp_bench/random.h"
#include "plugin/catalogue.h"
#include "plugin/obs_memory.h"
#include "profile/profile_experiment.h"
#include "run/checkpoint.h"
#include "run/result_files.h"
#include "run/run_files.h"
#include "task/key_check.h"
#include "train/train_config.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProfileDetails =
    R"(Trains for some steps on the config's dataset and plans action chunks, at batch 1 and in the
micro-batch of a rollout. Prints where the time goes, how close that is to the limit of this machine,
and which config keys to change. See docs/profiling.md.

Examples:
  dp_bench profile --policy unet_hybrid --env pusht
  dp_bench profile --policy transformer --env pusht --trace trace.json dataloader.batch_size=64
  dp_bench profile --checkpoint models/pusht_unet_hybrid --json profile.json)";

struct ProfileVerbOptions {
  task::ExperimentOptions experiment;
  profile::ProfileOptions profile;
  fs::path checkpoint;
  fs::path trace;
  fs::path json;
};

int Profile(ProfileVerbOptions options) {
  run::RequireResultFiles(
      {{"--json", options.json, run::kProfileJson}, {"--trace", options.trace, run::kTraceFile}});
  ChooseCheckpoint(&options.checkpoint);
  std::unique_ptr<Policy> trained;
  const bool is_of_checkpoint = !options.checkpoint.empty() && options.experiment.config.empty() &&
                                options.experiment.env.empty();
  if (is_of_checkpoint) options.experiment.config = options.checkpoint / run::kConfigFile;
  const task::Experiment experiment(options.experiment);
  if (!options.checkpoint.empty()) {
    trained = experiment.LoadPolicy(run::Checkpoint::Open(options.checkpoint), "ema");
  }
  const auto dataset = task::ProvideCheckedDataset(
      experiment, {.makes_policy = true, .is_of_checkpoint = is_of_checkpoint});
  if (dataset == nullptr) return core::kExitInterrupted;
  const profile::ExperimentProfile profile =
      profile::ProfileExperiment(experiment, *dataset, options.profile, std::move(trained));
  core::PrintResult("{}", profile::ToText(profile, options.profile.n_listed));
  if (!options.json.empty())
    core::WriteOutput(options.json, profile::ToJson(profile).dump(2) + "\n");
  if (options.trace.empty()) return 0;
  core::WriteOutput(options.trace, profile::ChromeTrace(profile.events,
                                                        fmt::format("dp_bench: {} on {}",
                                                                    profile.policy, profile.task)));
  core::PrintResult("trace: {}, for https://ui.perfetto.dev\n", options.trace.string());
  return 0;
}

constexpr const char* kBenchExamples =
    R"(Examples:
  dp_bench bench env --env pusht
  dp_bench bench dataset --dataset path/to/lerobot_dataset dataloader.num_workers=2)";

struct BenchVerbOptions {
  task::ExperimentOptions experiment;
  std::string part;
  int repetitions = 5;
  int n_steps = 2;  // of a window, for "dataset"
  int n_samples = 512;
};

double Seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return core::SecondsSince(start);
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Steps with uniform actions, each held for ten steps so that an absolute target is reached. A
// repetition ends after kSeconds: an env that draws large images makes a few steps a second.
void BenchEnv(const task::Task& task, int repetitions) {
  const std::unique_ptr<Env> env = task.CreateEnv();
  const EnvSpec& spec = env->spec();
  constexpr int kSteps = 2000;
  constexpr double kSeconds = 2.0;
  plugin::ObsMemory obs(spec);

  const auto seconds_per_step = [&](bool with_obs) {
    RandomStream random(0, StreamId::kEnvNoise);
    std::vector<float> action(spec.action_low.size());
    std::uint64_t seed = 0;
    env->Reset(seed);
    int episode_steps = 0;
    int n_steps = 0;
    const auto start = std::chrono::steady_clock::now();
    do {
      if (n_steps % 10 == 0) {
        for (std::size_t d = 0; d < action.size(); ++d) {
          action[d] =
              spec.action_low[d] + random.Uniform() * (spec.action_high[d] - spec.action_low[d]);
        }
      }
      const bool is_over = env->Step(action).terminated || ++episode_steps == spec.max_steps;
      if (with_obs) obs.Observe(*env);
      if (is_over) {
        env->Reset(++seed);
        episode_steps = 0;
      }
      ++n_steps;
    } while (n_steps < kSteps && (n_steps % 10 != 0 || core::SecondsSince(start) < kSeconds));
    return core::SecondsSince(start) / n_steps;
  };
  core::Progress progress(core::Progress::StandardError(), 0);
  const auto show = [&](const char* what, bool with_obs) {
    std::vector<double> seconds;
    for (int i = 0; i <= repetitions; ++i) {  // the first one warms up
      progress.Update({.done = i, .total = repetitions + 1, .unit = "repetitions"}, what, "");
      seconds.push_back(seconds_per_step(with_obs));
    }
    progress.Pause();
    const double rate = 1.0 / Median({++seconds.begin(), seconds.end()});
    core::PrintResult("{:<36} {:12.{}f}\n", what, rate, rate < 100.0 ? 1 : 0);
  };
  show("env steps/s, one thread", false);
  show("env steps/s, with observations", true);
}

// Windows of a few steps with all keys, as a training reads them. No policy and no env.
int BenchDataset(const BenchVerbOptions& options) {
  const task::ExperimentOptions& asked = options.experiment;
  if (asked.dataset.empty() || !asked.env.empty() || !asked.policy.empty()) {
    throw UsageError("bench dataset needs --dataset, and neither --env nor --policy");
  }
  plugin::PluginCatalogue catalogue = OpenCatalogue(asked.plugin_dirs);
  const Config config = config::LoadConfig({.dataset = asked.dataset,
                                            .config = asked.config,
                                            .overrides = asked.overrides,
                                            .config_dirs = asked.config_dirs,
                                            .readers = &catalogue});
  const auto loading = train::DataLoaderConfig::FromConfig(
      config.Sub("dataloader", "how batches are read"), /*shuffle_default=*/true);
  const Config source = config.Sub("dataset", "the dataset");
  const auto plugin = source.Require<std::string>("plugin", "the plugin that reads it");
  const Config params = source.Sub("params", "for the plugin");
  std::unique_ptr<Dataset> dataset;
  const double load_seconds = Seconds([&] { dataset = catalogue.Create<Dataset>(plugin, params); });
  config.RejectUnread();

  data::BatchLoaderOptions loader_options = {.batch_size = loading.batch_size,
                                             .shuffle = loading.shuffle,
                                             .drop_last = true,
                                             .n_obs_steps = options.n_steps,
                                             .keys = {},
                                             .n_threads = loading.num_workers};
  for (const KeySpec& key : dataset->spec().keys) {
    if (key.name != "action") loader_options.keys.push_back(key.name);
  }
  const std::span<const std::int64_t> ends = dataset->episode_ends();
  data::BatchLoader loader(*dataset,
                           data::SequenceSampler({.episode_ends = {ends.begin(), ends.end()},
                                                  .horizon = options.n_steps,
                                                  .pad_before = options.n_steps - 1}),
                           loader_options);
  std::uint64_t epoch = 0;
  data::HostBatch batch;
  const auto next = [&] {
    if (!loader.Next(&batch)) {
      loader.StartEpoch(epoch++);
      loader.Next(&batch);
    }
  };
  for (int i = 0; i < std::max(1, loading.num_workers); ++i) next();  // opens the files
  const std::int64_t n_batches = (options.n_samples + loading.batch_size - 1) / loading.batch_size;
  std::vector<double> seconds;
  for (int i = 0; i < options.repetitions; ++i) {
    seconds.push_back(Seconds([&] {
      for (std::int64_t batch_index = 0; batch_index < n_batches; ++batch_index) next();
    }));
  }
  core::PrintResult("dataset load [s]                     {:12.2f}\n", load_seconds);
  core::PrintResult("windows                              {:12}\n", loader.sampler().size());
  core::PrintResult("windows/s, batch {:<4}                {:12.1f}\n", loading.batch_size,
                    static_cast<double>(n_batches * loading.batch_size) / Median(seconds));
  return 0;
}

}  // namespace

Verb AddProfile(CLI::App* app) {
  auto options = std::make_shared<ProfileVerbOptions>();
  app->footer(kProfileDetails);
  AddExperimentOptions(app, &options->experiment);
  AddFolder(
      app, "--checkpoint", &options->checkpoint,
      "Plan action chunks with its weights; without --config or --policy also with its config");
  AddNumber(app, "--steps", &options->profile.n_steps, 1, 10'000, "Training steps to time");
  AddNumber(app, "--operators", &options->profile.n_listed, 1, 1000, "Operators in each table");
  app->add_option("--trace", options->trace, "Write a trace for Perfetto or chrome://tracing");
  app->add_option("--json", options->json, "Write the figures, with all operators, to this file");
  return [options] { return Profile(*options); };
}

Verb AddBench(CLI::App* app) {
  auto options = std::make_shared<BenchVerbOptions>();
  app->footer(kBenchExamples);
  app->add_option(
         "part", options->part,
         "What to measure: env, or dataset (reading alone); `dp_bench profile` measures a policy")
      ->required()
      ->check(CLI::IsMember({"env", "dataset"}));
  AddNumber(app, "--repetitions", &options->repetitions, 1, 1000,
            "Each figure is the median of this many");
  AddNumber(app, "--steps", &options->n_steps, 1, 1000, "Steps of a window, for dataset");
  app->add_option("--samples", options->n_samples, "Windows per repetition, for dataset")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  AddExperimentOptions(app, &options->experiment);
  return [options] {
    if (options->part == "dataset") return BenchDataset(*options);
    const task::Task task(options->experiment);
    task::RejectUnknownKeys(task, {});
    BenchEnv(task, options->repetitions);
    return 0;
  };
}

}  // namespace dp_bench::app
