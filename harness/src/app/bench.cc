// dp_bench bench: the speed of an env, a dataset or a policy on this machine, and of other packages
// beside it. Each figure is the median of several repetitions. Compare ratios within one run;
// absolute figures depend on the machine.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/program_files.h"
#include "app/verbs.h"
#include "config/loader.h"
#include "core/clock.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/median.h"
#include "core/output_file.h"
#include "core/progress.h"
#include "data/loader.h"
#include "data/sequence_sampler.h"
#include "dp_bench/random.h"
#include "plugin/catalogue.h"
#include "plugin/obs_memory.h"
#include "profile/policy_bench.h"
#include "run/result_files.h"
#include "task/experiment.h"
#include "task/key_check.h"
#include "train/train_config.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kBenchDetails =
    R"(policy: action chunks and training steps of the policy with initial weights, on random observations.
env: steps with random actions. dataset: reading alone.
peers: the same work in other packages, in turns with ours, and the ratios. python/peers/README.md has
the list and says how to add one.

Examples:
  dp_bench bench policy --policy unet_hybrid --env pusht policy.weights=bf16
  dp_bench bench env --env pusht
  dp_bench bench dataset --dataset path/to/lerobot_dataset dataloader.num_workers=2
  dp_bench bench peers --python peers/bin/python --json peers.json
  dp_bench bench peers --peer lerobot_unet --repetitions 3)";

struct BenchVerbOptions {
  task::ExperimentOptions experiment;
  std::string part;
  profile::PolicyBenchOptions policy;  // n_rounds and seconds are those of all parts
  std::string work = "all";
  int n_steps = 2;  // of a window, for "dataset"
  int n_samples = 512;
  std::vector<std::string> peers;
  std::string python = "python3";
  fs::path json;
};

void WriteBench(const fs::path& path, Json figures) {
  if (path.empty()) return;
  figures["format"] = "dp_bench.bench.1";
  core::WriteOutput(path, figures.dump(2) + "\n");
}

// Steps with uniform actions, each held for ten steps so that an absolute target is reached, for at
// least `seconds`. An env that draws large images makes a few steps a second. What a step costs
// depends on what it touches, so each round has other episodes and actions. Returns seconds per
// step.
double TimeSteps(Env& env, double seconds, bool with_obs, int round) {
  const EnvSpec& spec = env.spec();
  plugin::ObsMemory obs(spec);
  std::uint64_t seed = 1'000'000 * static_cast<std::uint64_t>(round);
  RandomStream random(seed, StreamId::kEnvNoise);
  std::vector<float> action(spec.action_low.size());
  env.Reset(seed);
  int episode_steps = 0;
  int n_steps = 0;
  const double start = core::SteadyTime();
  while (n_steps == 0 || n_steps % 10 != 0 || core::SteadyTime() - start < seconds) {
    if (n_steps % 10 == 0) {
      for (std::size_t d = 0; d < action.size(); ++d) {
        action[d] =
            spec.action_low[d] + random.Uniform() * (spec.action_high[d] - spec.action_low[d]);
      }
    }
    const bool is_over = env.Step(action).terminated || ++episode_steps == spec.max_steps;
    if (with_obs) obs.Observe(env);
    if (is_over) {
      env.Reset(++seed);
      episode_steps = 0;
    }
    ++n_steps;
  }
  return (core::SteadyTime() - start) / n_steps;
}

int BenchEnv(const BenchVerbOptions& options) {
  const task::Task task(options.experiment);
  task::RejectUnknownKeys(task, {});
  const std::unique_ptr<Env> env = task.CreateEnv();
  core::Progress progress(core::Progress::StandardError(), 0);
  Json rows = Json::array();
  const auto measure = [&](const char* work, const char* shown, bool with_obs) {
    std::vector<double> seconds;
    const int n_rounds = options.policy.n_rounds;
    for (int i = 0; i <= n_rounds; ++i) {  // the first one warms up
      progress.Update({.done = i, .total = n_rounds + 1, .unit = "repetitions"}, shown, "");
      seconds.push_back(TimeSteps(*env, options.policy.seconds, with_obs, i));
    }
    progress.Pause();
    seconds.erase(seconds.begin());
    const double rate = 1.0 / core::Median(seconds);
    core::PrintResult("{:<36} {:12.{}f}\n", shown, rate, rate < 100.0 ? 1 : 0);
    Json rounds = Json::array();
    for (const double each : seconds) rounds.push_back(1e3 * each);
    rows.push_back({{"work", work}, {"ms", 1e3 / rate}, {"rounds_ms", rounds}});
  };
  measure("env step", "env steps/s, one thread", false);
  measure("env step with observations", "env steps/s, with observations", true);
  WriteBench(options.json, {{"task", task.name()}, {"rows", rows}});
  return 0;
}

int BenchPolicy(BenchVerbOptions options) {
  const task::Experiment experiment(options.experiment);
  task::RejectUnknownKeys(experiment, {.makes_policy = true});
  options.policy.has_training = options.work != "chunks";
  if (options.work == "training") options.policy.chunks.clear();
  const Json bench = profile::BenchPolicy(experiment, options.policy);
  core::PrintResult("{}", profile::BenchText(bench));
  WriteBench(options.json, bench);
  return 0;
}

// Becomes the Python program that has the peers' side.
int BenchPeers(const BenchVerbOptions& options) {
  const fs::path peers = FirstOf("folder of peers", {ProgramFolder() / "../share/dp_bench/peers",
                                                     ProgramFolder() / "../../../python/peers"});
  std::vector<std::string> arguments = {options.python, peers.string(),
                                        "--program",    (ProgramFolder() / "dp_bench").string(),
                                        "--rounds",     std::to_string(options.policy.n_rounds),
                                        "--seconds",    fmt::format("{}", options.policy.seconds)};
  if (!options.experiment.device.empty())
    arguments.insert(arguments.end(), {"--device", options.experiment.device});
  for (const std::string& peer : options.peers) arguments.insert(arguments.end(), {"--peer", peer});
  if (!options.json.empty()) arguments.insert(arguments.end(), {"--json", options.json.string()});
  Become(options.python, std::move(arguments));
}

// Throws Error{kUsage} for options that the part does not use.
void RequireUsedByPart(const CLI::App& verb, const std::string& part) {
  using Names = std::vector<std::string_view>;
  const Names of_env = {"part",     "--repetitions", "--seconds",    "--json",   "--policy",
                        "--device", "--dataset",     "--env",        "--obs",    "--task",
                        "--config", "--isolate",     "--no-isolate", "overrides"};
  Names of_policy = of_env;
  of_policy.insert(of_policy.end(), {"--chunks", "--work"});
  const std::map<std::string_view, Names> used = {
      {"policy", of_policy},
      {"env", of_env},
      {"dataset",
       {"part", "--repetitions", "--steps", "--samples", "--dataset", "--config", "overrides"}},
      {"peers",
       {"part", "--repetitions", "--seconds", "--json", "--device", "--peer", "--python"}}};
  RequireUsed(verb, part, used.at(part));
}

// Windows of a few steps with all keys, as a training reads them. No policy and no env.
int BenchDataset(const BenchVerbOptions& options) {
  const task::ExperimentOptions& asked = options.experiment;
  if (asked.dataset.empty()) throw UsageError("bench dataset needs --dataset");
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
  const double load_start = core::SteadyTime();
  const auto dataset = catalogue.Create<Dataset>(plugin, params);
  const double load_seconds = core::SteadyTime() - load_start;
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
  for (int i = 0; i < options.policy.n_rounds; ++i) {
    const double start = core::SteadyTime();
    for (std::int64_t batch_index = 0; batch_index < n_batches; ++batch_index) next();
    seconds.push_back(core::SteadyTime() - start);
  }
  core::PrintResult("dataset load [s]                     {:12.2f}\n", load_seconds);
  core::PrintResult("windows                              {:12}\n", loader.sampler().size());
  core::PrintResult("windows/s, batch {:<4}                {:12.1f}\n", loading.batch_size,
                    static_cast<double>(n_batches * loading.batch_size) / core::Median(seconds));
  return 0;
}

}  // namespace

Verb AddBench(CLI::App* app) {
  auto options = std::make_shared<BenchVerbOptions>();
  app->footer(kBenchDetails);
  AddChoice(app, "part", &options->part, {"policy", "env", "dataset", "peers"},
            "What to measure: policy, env, dataset or peers")
      ->required();
  AddNumber(app, "--repetitions", &options->policy.n_rounds, 1, 1000,
            "Each figure is the median of this many");
  AddNumber(app, "--seconds", &options->policy.seconds, 0.0, 1e4,
            "How long a repetition takes at least, except for dataset");
  AddList(app, "--chunks", &options->policy.chunks, "Batch sizes of action chunks, for policy")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  AddChoice(app, "--work", &options->work, {"all", "chunks", "training"},
            "Action chunks, a training step or both, for policy");
  AddNumber(app, "--steps", &options->n_steps, 1, 1000, "Steps of a window, for dataset");
  app->add_option("--samples", options->n_samples, "Windows per repetition, for dataset")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--peer", options->peers,
                  "Which peers: names in python/peers, or Python files (default: all)");
  app->add_option("--python", options->python, "Interpreter with the peers' packages")
      ->capture_default_str();
  app->add_option("--json", options->json, "Write the figures to this file, not for dataset");
  AddExperimentOptions(app, &options->experiment);
  return [app, options] {
    RequireUsedByPart(*app, options->part);
    run::RequireResultFiles({{"--json", options->json, run::kBenchJson}});
    if (options->part == "dataset") return BenchDataset(*options);
    if (options->part == "env") return BenchEnv(*options);
    return options->part == "policy" ? BenchPolicy(*options) : BenchPeers(*options);
  };
}

}  // namespace dp_bench::app
