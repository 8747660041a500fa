// The transformer of configs/policy/transformer.json on PushT's shapes: one training step (forward,
// backward, AdamW, EMA), the same with dropout, and one DDIM-10 action chunk.
// tests/bench/peers/transformer_bench.py runs it side by side with PyTorch's modules.
#include <benchmark/benchmark.h>
#include <torch/torch.h>

#include <memory>
#include <vector>

#include "dp_bench/policy.h"
#include "train/ema.h"
#include "train/optimizer.h"
#include "transformer_policy.h"

namespace dp_bench {
namespace {

constexpr int kThreads = 2;
constexpr const char* kParams = R"({"n_layer": 4, "n_head": 6, "n_emb": 192, "p_drop_emb": 0.0,
  "p_drop_attn": 0.0, "noise_scheduler": {"type": "ddim", "num_inference_steps": 10}})";
constexpr const char* kParamsWithDropout = R"({"n_layer": 4, "n_head": 6, "n_emb": 192,
  "p_drop_emb": 0.1, "p_drop_attn": 0.1})";

PolicySpec MakeSpec() {
  PolicySpec spec;
  spec.shape_meta.obs = {{.name = "agent_pos", .shape = {2}},
                         {.name = "keypoint", .shape = {9, 2}}};
  spec.shape_meta.action = {.name = "action", .shape = {2}};
  return spec;
}

KeyStats StatsOf(std::size_t n) {
  return {.min = std::vector<double>(n, 0.0),
          .max = std::vector<double>(n, 512.0),
          .mean = std::vector<double>(n, 256.0),
          .std = std::vector<double>(n, 100.0),
          .count = 1};
}

std::unique_ptr<Policy> MakePolicy(const char* params = kParams) {
  torch::set_num_threads(kThreads);
  torch::manual_seed(0);
  std::unique_ptr<Policy> policy = transformer::MakePolicy(Config::FromJson(params), MakeSpec());
  Normalizer normalizer;
  normalizer.Fit("agent_pos", StatsOf(2), NormalizeMode::kLimits);
  normalizer.Fit("keypoint", StatsOf(18), NormalizeMode::kLimits);
  normalizer.Fit("action", StatsOf(2), NormalizeMode::kLimits);
  policy->SetNormalizer(normalizer);
  return policy;
}

TensorMap MakeObs(std::int64_t batch) {
  return {{"agent_pos", torch::rand({batch, 2, 2}) * 512.0},
          {"keypoint", torch::rand({batch, 2, 9, 2}) * 512.0}};
}

NoiseSource MakeNoise(std::int64_t batch, std::uint64_t major) {
  std::vector<NoiseKey> keys;
  for (std::int64_t i = 0; i < batch; ++i) {
    keys.push_back({.seed = 0, .major = major, .minor = static_cast<std::uint32_t>(i)});
  }
  return NoiseSource(keys);
}

void TrainStep(benchmark::State& state, const char* params) {
  const std::int64_t batch_size = state.range(0);
  const auto policy = MakePolicy(params);
  const auto ema_policy = MakePolicy(params);
  AdamW optimizer({}, MakeParameterGroups(policy->module(), /*weight_decay=*/1e-6));
  Ema ema({}, policy->module(), ema_policy->module());
  const Batch batch = {.obs = MakeObs(batch_size),
                       .action = torch::rand({batch_size, 16, 2}) * 512.0,
                       .is_pad = torch::zeros({batch_size, 16}, torch::kBool)};
  std::uint64_t step = 0;
  for (auto _ : state) {
    NoiseSource noise = MakeNoise(batch_size, step++);
    optimizer.ZeroGrad();
    policy->ComputeLoss(batch, noise).loss.backward();
    optimizer.Step(1e-4);
    ema.Update();
  }
  state.counters["samples_per_s"] = benchmark::Counter(
      static_cast<double>(state.iterations() * batch_size), benchmark::Counter::kIsRate);
}
BENCHMARK_CAPTURE(TrainStep, plain, kParams)
    ->Arg(256)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(TrainStep, dropout, kParamsWithDropout)
    ->Arg(256)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void PredictAction(benchmark::State& state) {
  const auto policy = MakePolicy();
  policy->module().eval();
  const TensorMap obs = MakeObs(state.range(0));
  std::uint64_t chunk = 0;
  for (auto _ : state) {
    NoiseSource noise = MakeNoise(state.range(0), chunk++);
    benchmark::DoNotOptimize(policy->PredictAction(obs, noise));
  }
}
BENCHMARK(PredictAction)->Arg(1)->Arg(16)->Arg(50)->UseRealTime()->Unit(benchmark::kMillisecond);

// How fast this machine multiplies matrices: the limit that the figures above are held against. The
// shape is that of the network's largest product at B = 256.
void Sgemm(benchmark::State& state) {
  torch::set_num_threads(kThreads);
  const torch::Tensor a = torch::rand({4096, 192});
  const torch::Tensor b = torch::rand({768, 192});
  torch::Tensor c = torch::empty({4096, 768});
  for (auto _ : state) torch::mm_out(c, a, b.t());
  state.counters["flops"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * 2.0 * 4096 * 192 * 768,
                         benchmark::Counter::kIsRate);
}
BENCHMARK(Sgemm)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace dp_bench

BENCHMARK_MAIN();
