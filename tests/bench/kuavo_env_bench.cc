// Control steps of kuavo_dualarm with their state observation, on the actions of the expert: one
// thread, then two threads with one env each.
#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kuavo_env.h"

namespace dp_bench::kuavo_dualarm {
namespace {

constexpr std::array<std::uint64_t, 2> kSeeds = {0, 1};

std::vector<std::vector<float>> ExpertActions(KuavoEnv& env, std::uint64_t seed) {
  env.Reset(seed);
  env.BeginExpert(seed);
  std::vector<std::vector<float>> actions;
  bool terminated = false;
  while (!terminated && actions.size() < static_cast<std::size_t>(env.spec().max_steps)) {
    env.Act(actions.emplace_back(kActionDim));
    terminated = env.Step(actions.back()).terminated;
  }
  return actions;
}

void StateStep(benchmark::State& bench) {
  const std::string task = TaskNames()[static_cast<std::size_t>(bench.range(0))];
  KuavoEnv env(Config::FromJson(R"({"task": ")" + task + "\"}"));
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::span<std::byte>> views;
  for (const KeySpec& key : env.spec().shape_meta.obs) memory.emplace_back(key.ByteSize());
  views.assign(memory.begin(), memory.end());
  std::vector<std::vector<std::vector<float>>> episodes;
  for (const std::uint64_t seed : kSeeds) episodes.push_back(ExpertActions(env, seed));

  std::int64_t n_steps = 0;
  for (auto _ : bench) {
    for (std::size_t i = 0; i < kSeeds.size(); ++i) {
      env.Reset(kSeeds[i]);
      for (const std::vector<float>& action : episodes[i]) {
        benchmark::DoNotOptimize(env.Step(action).reward);
        env.Observe({env.spec().shape_meta.obs, views});
        ++n_steps;
      }
    }
  }
  bench.SetLabel(task);
  bench.SetItemsProcessed(n_steps);
}
BENCHMARK(StateStep)->DenseRange(0, 2)->ThreadRange(1, 2)->UseRealTime()->Unit(
    benchmark::kMillisecond);

}  // namespace
}  // namespace dp_bench::kuavo_dualarm

BENCHMARK_MAIN();
