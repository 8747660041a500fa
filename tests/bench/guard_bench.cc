// Steps of point_mass and pusht with the checks of Env, with and without their observations.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dp_bench/env.h"
#include "dp_bench/random.h"
#include "plugin/catalogue.h"
#include "plugin/obs_memory.h"

namespace dp_bench {
namespace {

constexpr int kActions = 2048;

std::vector<std::vector<float>> Actions(const EnvSpec& spec) {
  RandomStream random(1, StreamId::kPolicyNoise);
  std::vector<std::vector<float>> actions(kActions);
  for (std::vector<float>& action : actions) {
    for (std::size_t i = 0; i < spec.action_low.size(); ++i) {
      action.push_back(spec.action_low[i] +
                       random.Uniform() * (spec.action_high[i] - spec.action_low[i]));
    }
  }
  return actions;
}

// Args: whether every step is observed.
void Steps(benchmark::State& state, const std::string& name) {
  plugin::PluginCatalogue catalogue({DPB_PLUGIN_DIR});
  const Config params = Config::FromJson("{}");
  const auto env = catalogue.Create<Env>(name, params);
  const std::vector<std::vector<float>> actions = Actions(env->spec());
  plugin::ObsMemory obs(env->spec());
  std::uint64_t seed = 0;
  std::size_t step = 0;
  env->Reset(seed);
  for (auto _ : state) {
    if (state.range(0) != 0) obs.Observe(*env);
    const bool is_over = env->Step(actions[step % kActions]).terminated;
    if (is_over || ++step % static_cast<std::size_t>(env->spec().max_steps) == 0) {
      env->Reset(++seed);
    }
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(Steps, point_mass, "point_mass")->ArgName("observed")->Arg(0)->Arg(1);
BENCHMARK_CAPTURE(Steps, pusht, "pusht")->ArgName("observed")->Arg(0)->Arg(1);

}  // namespace
}  // namespace dp_bench

BENCHMARK_MAIN();
