// dp_bench bench: the speed of the parts of an experiment on this machine. Each figure is the
// median of several repetitions. Compare ratios within one run; absolute figures depend on the
// machine.
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/verbs.h"
#include "core/console.h"
#include "core/device.h"
#include "core/exit_code.h"
#include "dp_bench/random.h"
#include "experiment/key_check.h"
#include "experiment/training_rig.h"
#include "plugin/obs_memory.h"
#include "train/device_batch.h"

namespace dp_bench::app {
namespace {

constexpr const char* kBenchExamples =
    R"(Examples:
  dp_bench bench env --env pusht
  dp_bench bench policy --policy unet_hybrid --env point_mass dataloader.batch_size=64)";

struct BenchVerbOptions {
  experiment::ExperimentOptions experiment;
  std::string part;
  int repetitions = 5;
};

double Seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Median seconds of `work` after one warm-up.
double MedianSeconds(int repetitions, const std::function<void()>& work) {
  work();
  std::vector<double> seconds;
  for (int i = 0; i < repetitions; ++i) seconds.push_back(Seconds(work));
  std::nth_element(seconds.begin(), seconds.begin() + repetitions / 2, seconds.end());
  return seconds[static_cast<std::size_t>(repetitions) / 2];
}

// Steps with uniform actions, each held for ten steps so that an absolute target is reached.
void BenchEnv(const experiment::Task& task, int repetitions) {
  const std::unique_ptr<Env> env = task.CreateEnv();
  const EnvSpec& spec = env->spec();
  constexpr int kSteps = 2000;

  plugin::ObsMemory obs(spec);

  const auto run = [&](bool with_obs) {
    RandomStream random(0, StreamId::kEnvNoise);
    std::vector<float> action(spec.action_low.size());
    std::uint64_t seed = 0;
    env->Reset(seed);
    int episode_steps = 0;
    for (int i = 0; i < kSteps; ++i) {
      if (i % 10 == 0) {
        for (std::size_t d = 0; d < action.size(); ++d) {
          action[d] =
              spec.action_low[d] + random.Uniform() * (spec.action_high[d] - spec.action_low[d]);
        }
      }
      const bool is_over = env->Step(action).terminated || ++episode_steps == spec.max_steps;
      if (with_obs) obs.Observe(*env);
      if (!is_over) continue;
      env->Reset(++seed);
      episode_steps = 0;
    }
  };
  const double step = MedianSeconds(repetitions, [&] { run(false); });
  const double observed = MedianSeconds(repetitions, [&] { run(true); });
  core::PrintResult("env steps/s, one thread              {:12.0f}\n", kSteps / step);
  core::PrintResult("env steps/s, with observations       {:12.0f}\n", kSteps / observed);
}

// The loader alone, and with the training that it feeds.
void BenchLoader(experiment::TrainingRig& rig, int repetitions,
                 const std::function<void(data::HostBatch*)>& train) {
  // workers finish their batches together, so measure over one batch of each
  const train::DataLoaderConfig& config = rig.loading();
  const int n_batches = std::max(1, config.num_workers);
  data::HostBatch host;
  const auto rate = [&](const std::function<void(data::HostBatch*)>& use) {
    const double seconds = MedianSeconds(repetitions, [&] {
      for (int i = 0; i < n_batches; ++i) {
        rig.NextBatch(&host);
        use(&host);
      }
    });
    return static_cast<double>(n_batches * config.batch_size) / seconds;
  };
  core::PrintResult("loader samples/s, batch {:<4}         {:12.0f}\n", config.batch_size,
                    rate([](data::HostBatch*) {}));
  core::PrintResult("training with loader samples/s       {:12.0f}\n", rate(train));
}

void BenchActionChunks(Policy* policy, const Batch& batch, std::int64_t batch_size,
                       int repetitions) {
  policy->module().eval();
  policy->WeightsChanged();
  for (const std::int64_t rows : {1, 16, 50}) {
    if (rows > batch_size) break;
    const TensorMap obs = train::ObservedSteps(train::FirstRows(batch, rows).obs,
                                               policy->spec().horizons.n_obs_steps);
    const double seconds = MedianSeconds(repetitions, [&] {
      NoiseSource noise = train::BatchNoise(0, train::NoisePurpose::kSampling, 0, rows);
      policy->PredictAction(obs, noise).to(torch::kCPU);
    });
    core::PrintResult("action chunk, batch {:<3} [ms]         {:12.2f}\n", rows, 1e3 * seconds);
  }
}

int BenchPolicy(const experiment::Experiment& experiment, int repetitions) {
  const bool is_there =
      experiment::ProvideCheckedDataset(experiment, {.makes_policy = true}) != nullptr;
  if (!is_there) return core::kExitInterrupted;
  std::unique_ptr<Dataset> dataset;
  const double load_seconds = Seconds([&] { dataset = experiment.CreateDataset(); });
  experiment::TrainingRig rig(experiment, *dataset);
  data::BatchLoader& loader = rig.loader();
  core::PrintResult("dataset load [s]                     {:12.2f}\n", load_seconds);
  core::PrintResult("training sequences                   {:12}\n", loader.sampler().size());

  // only the last batch, so that no worker is busy during the measurement
  loader.StartEpoch(0, loader.num_batches() - 1);
  data::HostBatch host;
  loader.Next(&host);
  const Batch batch = train::ToBatch(host, experiment.spec().shape_meta, experiment.device());

  // loss, gradients, optimiser, EMA
  train::StepTimer timer([] { return 0.0; });
  const std::int64_t batch_size = rig.loading().batch_size;
  const double train_seconds = MedianSeconds(repetitions, [&] {
    rig.TrainOn(host, &timer);
    core::Synchronize(experiment.device());
  });
  core::PrintResult("training samples/s, batch {:<4}       {:12.0f}\n", batch_size,
                    static_cast<double>(batch_size) / train_seconds);
  BenchActionChunks(&rig.policy(), batch, batch_size, repetitions);
  rig.policy().module().train();
  BenchLoader(rig, repetitions, [&](data::HostBatch* from) { rig.TrainOn(*from, &timer); });
  return 0;
}

}  // namespace

Verb AddBench(CLI::App* app) {
  auto options = std::make_shared<BenchVerbOptions>();
  app->footer(kBenchExamples);
  app->add_option("part", options->part,
                  "What to measure: env, or policy (data, training, inference)")
      ->required()
      ->check(CLI::IsMember({"env", "policy"}));
  app->add_option("--repetitions", options->repetitions, "Each figure is the median of this many")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  AddExperimentOptions(app, &options->experiment);
  return [options] {
    if (options->part == "env") {
      const experiment::Task task(options->experiment);
      experiment::RejectUnknownKeys(task, {});
      BenchEnv(task, options->repetitions);
      return 0;
    }
    return BenchPolicy(experiment::Experiment(options->experiment), options->repetitions);
  };
}

}  // namespace dp_bench::app
