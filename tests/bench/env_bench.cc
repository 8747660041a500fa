// PushT without images on one core: env steps with their observation along the pushing traces of
// tests/golden/pusht.safetensors.
#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "coverage.h"
#include "pusht_env.h"
#include "run/safetensors.h"

namespace dp_bench::pusht {
namespace {

constexpr std::array<std::uint64_t, 4> kSeeds = {0, 2, 3, 14};

void StateStep(benchmark::State& bench) {
  const run::Safetensors golden =
      run::ReadSafetensors(DPB_SOURCE_DIR "/tests/golden/pusht.safetensors");
  PushtEnv env(Config::FromJson(R"({"obs": ["state"]})"));
  std::vector<std::byte> state(env.spec().shape_meta.obs[0].ByteSize());
  const std::span<std::byte> buffer = state;
  std::int64_t n_steps = 0;
  for (auto _ : bench) {
    for (const std::uint64_t seed : kSeeds) {
      const auto actions =
          golden.tensors.at("push_" + std::to_string(seed) + ".action").as<float>();
      env.Reset(seed);
      for (std::size_t i = 0; i < actions.size(); i += 2, ++n_steps) {
        benchmark::DoNotOptimize(env.Step(actions.subspan(i, 2)).reward);
        env.Observe({env.spec().shape_meta.obs, {&buffer, 1}});
      }
    }
  }
  bench.SetItemsProcessed(n_steps);
}
BENCHMARK(StateStep)->Unit(benchmark::kMicrosecond);

// The worst case: the block partly covers the goal in every step.
void CoverageOverGoal(benchmark::State& bench) {
  double angle = 0.0;
  for (auto _ : bench) {
    benchmark::DoNotOptimize(Coverage({kGoalPose.x + 3.0, kGoalPose.y, angle}));
    angle += 0.01;
  }
}
BENCHMARK(CoverageOverGoal);

}  // namespace
}  // namespace dp_bench::pusht

BENCHMARK_MAIN();
