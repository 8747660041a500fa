// Shared by the benchmarks of policies: PushT's shapes, one training step and one action chunk.
// They run on the CPU, or on the device that the environment variable DPB_BENCH_DEVICE names, for
// example cuda.
#pragma once

#include <benchmark/benchmark.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "core/machine.h"
#include "dp_bench/policy.h"
#include "policy/device.h"
#include "policy/kernels/loop_tensors.h"
#include "train/ema.h"
#include "train/fit_normalizer.h"
#include "train/optimizer.h"

namespace dp_bench {

inline constexpr int kThreads = 2;

using PolicyFactory = std::function<std::unique_ptr<Policy>(const PolicySpec&)>;

inline KeyStats StatsOf(std::size_t n) {
  return {.min = std::vector<double>(n, 0.0),
          .max = std::vector<double>(n, 512.0),
          .mean = std::vector<double>(n, 256.0),
          .std = std::vector<double>(n, 100.0),
          .count = 1};
}

inline torch::Device BenchDevice() {
  const char* const name = std::getenv("DPB_BENCH_DEVICE");
  static const torch::Device device = policy::OpenDevice(name == nullptr ? "cpu" : name);
  return device;
}

/// A policy for PushT's keypoints with a normalizer.
inline std::unique_ptr<Policy> MakePolicy(const PolicyFactory& create) {
  torch::set_num_threads(kThreads);
  core::KeepFreedMemory();  // as the program does
  torch::manual_seed(0);
  PolicySpec spec;
  spec.shape_meta.obs = {{.name = "agent_pos", .shape = {2}},
                         {.name = "keypoint", .shape = {9, 2}}};
  spec.shape_meta.action = {.name = "action", .shape = {2}};
  std::unique_ptr<Policy> policy = create(spec);
  policy->module().to(BenchDevice());
  policy->SetNormalizer(Normalizer({train::FitKey("agent_pos", StatsOf(2), NormalizeMode::kLimits),
                                    train::FitKey("keypoint", StatsOf(18), NormalizeMode::kLimits),
                                    train::FitKey("action", StatsOf(2), NormalizeMode::kLimits)}));
  return policy;
}

inline TensorMap MakeObs(std::int64_t batch) {
  const auto pixels = [](at::IntArrayRef shape) {
    return (torch::rand(shape) * 512.0).to(BenchDevice());
  };
  return {{"agent_pos", pixels({batch, 2, 2})}, {"keypoint", pixels({batch, 2, 9, 2})}};
}

inline NoiseSource MakeNoise(std::int64_t batch, std::uint64_t major) {
  std::vector<NoiseKey> keys;
  for (std::int64_t i = 0; i < batch; ++i) {
    keys.push_back({.seed = 0, .major = major, .minor = static_cast<std::uint32_t>(i)});
  }
  return NoiseSource(keys);
}

/// Forward, backward, AdamW and EMA on a batch of state.range(0).
inline void RunTrainStep(benchmark::State& state, const PolicyFactory& create,
                         train::MixedPrecision precision = train::MixedPrecision::kNo) {
  const std::int64_t batch_size = state.range(0);
  const auto policy = MakePolicy(create);
  const auto ema_policy = MakePolicy(create);
  train::Optimizer optimizer({},
                             train::MakeParameterGroups(policy->module(), {.weight_decay = 1e-6}));
  train::Ema ema({}, policy->module(), ema_policy->module());
  const Batch batch = {.obs = MakeObs(batch_size),
                       .action = (torch::rand({batch_size, 16, 2}) * 512.0).to(BenchDevice()),
                       .is_pad = torch::zeros({batch_size, 16}, torch::kBool).to(BenchDevice())};
  std::uint64_t step = 0;
  const auto train = [&] {
    NoiseSource noise = MakeNoise(batch_size, step++);
    optimizer.ZeroGrad();
    torch::Tensor loss;
    {
      const policy::AutocastGuard autocast(BenchDevice().type(), train::ProductType(precision));
      loss = policy->ComputeLoss(batch, noise).loss;
    }
    loss.backward();
    optimizer.Step(1e-4);
    ema.Update();
    policy::Synchronize(BenchDevice());
  };
  train();  // the first step allocates, and a slow benchmark may measure only one
  for (auto _ : state) train();
  state.counters["samples_per_s"] = benchmark::Counter(
      static_cast<double>(state.iterations() * batch_size), benchmark::Counter::kIsRate);
}

/// One action chunk for state.range(0) observations.
inline void RunPredictAction(benchmark::State& state, const PolicyFactory& create,
                             WeightFormat weights = WeightFormat::kFloat32) {
  const auto policy = MakePolicy(create);
  policy->SetWeightFormat(weights);
  policy->module().eval();
  const TensorMap obs = MakeObs(state.range(0));
  std::uint64_t chunk = 0;
  const auto predict = [&] {
    NoiseSource noise = MakeNoise(state.range(0), chunk++);
    benchmark::DoNotOptimize(policy->PredictAction(obs, noise).cpu());
  };
  for (int i = 0; i < 3; ++i) predict();  // a GPU's graph is recorded by the second call
  for (auto _ : state) predict();
}

/// The rate at which this machine multiplies [m, k] with transposed [n, k]: the upper limit for the
/// figures above.
inline void RunSgemm(benchmark::State& state, std::int64_t m, std::int64_t k, std::int64_t n) {
  torch::set_num_threads(kThreads);
  const torch::Tensor a = torch::rand({m, k});
  const torch::Tensor b = torch::rand({n, k});
  torch::Tensor c = torch::empty({m, n});
  for (auto _ : state) torch::mm_out(c, a, b.t());
  state.counters["flops"] = benchmark::Counter(
      static_cast<double>(state.iterations() * 2 * m * k * n), benchmark::Counter::kIsRate);
}

}  // namespace dp_bench
