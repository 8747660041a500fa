// The cost of images: one camera, and control steps of the dual-arm env in rgbd mode (three
// cameras, colour and depth) on one thread and on two.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/mujoco/renderer.h"
#include "kuavo_env.h"

namespace dp_bench::kuavo_dualarm {
namespace {

constexpr const char* kRgbd =
    R"({"task": "pick_place", "obs": "rgbd", "scene_dir": ")" DPB_SOURCE_DIR R"(/scenes"})";

// The robot in its start pose.
struct Scene {
  Scene() : env(Config::FromJson(kRgbd)) { env.Reset(0); }
  KuavoEnv env;
};

// Args: camera (head, left wrist, scene), side of the shadow map, multisamples, slices.
void Camera(benchmark::State& bench) {
  constexpr int kWidth = 640;
  constexpr int kHeight = 480;
  const Scene scene;
  const auto& cameras = scene.env.model().cameras();
  const std::vector<int> ids = {cameras[0], cameras[1], cameras.back()};
  const int camera = ids[static_cast<std::size_t>(bench.range(0))];
  const mujoco::RenderSettings settings = {.shadow_size = static_cast<int>(bench.range(1)),
                                           .samples = static_cast<int>(bench.range(2)),
                                           .slices = static_cast<int>(bench.range(3))};
  const mjModel& model = *scene.env.model().model();
  mujoco::Renderer renderer(model, settings);
  std::vector<std::uint8_t> rgb(std::size_t{kWidth} * kHeight * 3);
  std::vector<std::uint16_t> depth(std::size_t{kWidth} * kHeight);
  for (auto _ : bench) {
    renderer.RenderRgbd(model, scene.env.data(), camera, kWidth, kHeight, rgb, depth);
    benchmark::DoNotOptimize(rgb.data());
  }
}
BENCHMARK(Camera)
    ->ArgNames({"camera", "shadow", "samples", "slices"})
    ->ArgsProduct({{0, 1, 2}, {0, 1024}, {0}, {16}})
    ->Args({2, 1024, 0, 32})
    ->Args({2, 1024, 4, 32})
    ->Args({2, 2048, 4, 32})
    ->UseRealTime()
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

void ControlStep(benchmark::State& bench) {
  Scene scene;
  KuavoEnv& env = scene.env;
  std::vector<std::vector<std::byte>> memory;
  for (const KeySpec& key : env.spec().shape_meta.obs) memory.emplace_back(key.ByteSize());
  const std::vector<std::span<std::byte>> obs(memory.begin(), memory.end());
  std::vector<float> home(kActionDim);
  for (std::size_t side = 0; side < kNumSides; ++side) {
    for (std::size_t joint = 0; joint < kNumArmJoints; ++joint) {
      home[side * kSideDim + joint] = static_cast<float>(kHome[side][joint]);
    }
  }
  int step = 0;
  for (auto _ : bench) {
    env.Step(home);
    env.Observe({env.spec().shape_meta.obs, obs});
    if (++step == env.spec().max_steps) {
      env.Reset(0);
      step = 0;
    }
  }
  bench.SetItemsProcessed(bench.iterations());
}
BENCHMARK(ControlStep)->Threads(1)->Threads(2)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace dp_bench::kuavo_dualarm

BENCHMARK_MAIN();
