// The overhead of the EnvRunner: point_mass, whose step is nearly free, stepped directly and
// through the runner with a planner that does nothing. Also the encoder of an episode's video.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "control/correction_head.h"
#include "control/obs_history.h"
#include "media/video_encoder.h"
#include "point_mass_env.h"
#include "rollout/env_runner.h"

namespace dp_bench {
namespace {

constexpr int kEpisodes = 50;
constexpr int kSteps = 300;
const char kParams[] = R"({"max_steps": 300})";

class ZeroPlanner : public control::ChunkPlanner {
 public:
  int batch_size() const override { return 16; }
  void Plan(const control::ObsBatch&, std::span<const control::PlanRow>,
            std::span<float> actions) override {
    std::ranges::fill(actions, 0.0F);
  }
};

std::unique_ptr<Env> CreateEnv() {
  return std::make_unique<point_mass::PointMassEnv>(Config::FromJson(kParams));
}

// One action corrected by a head of two hidden layers with 256 units, as `dp_bench correct` trains.
void CorrectAction(benchmark::State& bench) {
  const ShapeMeta shape_meta = CreateEnv()->spec().shape_meta;
  const Horizons horizons;
  std::int64_t n_in = control::CorrectionInputs(shape_meta, horizons);
  ArrayMap tensors;
  tensors.emplace("input.mean", Array(DType::kFloat32, {n_in - 1}));
  tensors.emplace("input.std", Array(DType::kFloat32, {n_in - 1}));
  std::ranges::fill(tensors.find("input.std")->second.as<float>(), 1.0F);
  int layer = 0;
  for (const std::int64_t n_out : {std::int64_t{256}, std::int64_t{256}, shape_meta.action_dim()}) {
    tensors.emplace(std::to_string(layer) + ".weight", Array(DType::kFloat32, {n_out, n_in}));
    tensors.emplace(std::to_string(layer++) + ".bias", Array(DType::kFloat32, {n_out}));
    n_in = n_out;
  }
  const control::CorrectionHead head(tensors, shape_meta, horizons, "bench");
  const control::ObsBatch obs =
      control::MakeObsBatch(shape_meta.obs, /*n_rows=*/1, horizons.n_obs_steps);
  std::vector<float> action(static_cast<std::size_t>(shape_meta.action_dim()), 0.5F);
  control::CorrectionHead::LayerValues values = head.MakeLayerValues();
  for (auto _ : bench) {
    head.Correct(obs, /*place=*/3, action, &values);
    benchmark::DoNotOptimize(action.data());
  }
}
BENCHMARK(CorrectAction);

void BareEnvSteps(benchmark::State& bench) {
  const std::unique_ptr<Env> env = CreateEnv();
  const std::vector<float> action(2);
  std::int64_t n_steps = 0;
  for (auto _ : bench) {
    for (std::uint64_t seed = 0; seed < kEpisodes; ++seed) {
      env->Reset(seed);
      bool is_terminated = false;
      for (int i = 0; i < kSteps && !is_terminated; ++i, ++n_steps) {
        is_terminated = env->Step(action).terminated;
      }
    }
  }
  bench.SetItemsProcessed(n_steps);
}
BENCHMARK(BareEnvSteps)->Unit(benchmark::kMillisecond)->UseRealTime();

void RunnerSteps(benchmark::State& bench) {
  control::EnvRunnerConfig config;
  config.n_train = 0;
  config.n_test = kEpisodes;
  config.n_videos = 0;
  config.n_workers = static_cast<int>(bench.range(0));
  rollout::EnvRunner runner(config, CreateEnv, CreateEnv()->spec().shape_meta, Horizons{}, "");
  ZeroPlanner planner;
  std::int64_t n_steps = 0;
  for (auto _ : bench) n_steps += runner.Run(planner).n_env_steps;
  bench.SetItemsProcessed(n_steps);
}
BENCHMARK(RunnerSteps)->Arg(1)->Arg(2)->Arg(4)->Unit(benchmark::kMillisecond)->UseRealTime();

void EncodeEpisode(benchmark::State& bench) {
  const int size = static_cast<int>(bench.range(0));
  const auto path = std::filesystem::temp_directory_path() / "dp_bench_rollout_bench.mp4";
  RgbImage frame(size, size);
  for (auto _ : bench) {
    media::VideoEncoder encoder(path, {.width = size, .height = size, .fps = 10.0});
    for (int i = 0; i <= kSteps; ++i) {
      // a square that slides over a plain background
      std::ranges::fill(frame.pixels, std::uint8_t{200});
      for (int y = size / 3; y < size / 2; ++y) {
        const int x = i * size / (2 * kSteps);
        std::fill_n(frame.pixels.begin() + 3 * (y * size + x), size / 2, std::uint8_t{60});
      }
      encoder.Write(frame);
    }
    encoder.Finish();
  }
  std::filesystem::remove(path);
  bench.SetItemsProcessed(bench.iterations() * (kSteps + 1));
}
BENCHMARK(EncodeEpisode)->Arg(96)->Arg(256)->Arg(512)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace dp_bench

BENCHMARK_MAIN();
