// PushT with images on one core: one observation, one env step with its observation, one video
// frame. The peer's side is peers/pusht_render_bench.py.
#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dp_bench/random.h"
#include "pusht_env.h"
#include "pusht_render.h"

namespace dp_bench::pusht {
namespace {

constexpr int kNumStates = 1000;

// Agent and block as in the peers' start states, at any angle.
std::vector<PushtState> RandomStates() {
  RandomStream random(1, StreamId::kEnvStart);
  std::vector<PushtState> states(kNumStates);
  for (PushtState& state : states) {
    state.agent = {50.0 + 400.0 * random.UniformDouble(), 50.0 + 400.0 * random.UniformDouble()};
    state.block = {100.0 + 300.0 * random.UniformDouble(), 100.0 + 300.0 * random.UniformDouble(),
                   2.0 * kPi * random.UniformDouble()};
  }
  return states;
}

void Observation(benchmark::State& bench) {
  const std::vector<PushtState> states = RandomStates();
  PushtRenderer renderer;
  std::vector<std::uint8_t> image(std::size_t{kImageSize} * kImageSize * 3);
  std::size_t i = 0;
  for (auto _ : bench) {
    renderer.RenderObservation(states[i], image);
    benchmark::DoNotOptimize(image.data());
    i = i + 1 == states.size() ? 0 : i + 1;
  }
  bench.SetItemsProcessed(bench.iterations());
}
BENCHMARK(Observation);

// 300 steps towards random targets, then the next episode: the peer's script does the same.
void StepAndObservation(benchmark::State& bench) {
  PushtEnv env(Config::FromJson(R"({"obs": ["image"]})"));
  std::vector<std::byte> image(env.spec().shape_meta.obs[0].ByteSize());
  const std::span<std::byte> buffer = image;
  RandomStream random(2, StreamId::kEnvNoise);
  std::uint64_t seed = 0;
  int step = 0;
  bool terminated = true;
  for (auto _ : bench) {
    if (terminated || step == env.spec().max_steps) {
      env.Reset(seed++);
      step = 0;
    }
    const std::array<float, 2> action = {512.0F * random.Uniform(), 512.0F * random.Uniform()};
    terminated = env.Step(action).terminated;
    env.Observe({env.spec().shape_meta.obs, {&buffer, 1}});
    benchmark::DoNotOptimize(image.data());
    ++step;
  }
  bench.SetItemsProcessed(bench.iterations());
}
BENCHMARK(StepAndObservation);

void Frame(benchmark::State& bench) {
  const std::vector<PushtState> states = RandomStates();
  const int size = static_cast<int>(bench.range(0));
  RgbImage frame(size, size);
  const Point target = {300.0, 200.0};
  std::size_t i = 0;
  for (auto _ : bench) {
    RenderFrame(states[i], &target, &frame);
    benchmark::DoNotOptimize(frame.pixels.data());
    i = i + 1 == states.size() ? 0 : i + 1;
  }
}
BENCHMARK(Frame)->Arg(96)->Arg(256)->Arg(512)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace dp_bench::pusht

BENCHMARK_MAIN();
