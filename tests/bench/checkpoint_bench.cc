// How long the training loop stops for a checkpoint of 50 M parameters, their EMA and the two
// moments of AdamW (800 MB). In the background that is only the copy, otherwise the whole save.
#include <benchmark/benchmark.h>
#include <torch/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>

#include "planner/policy_weights.h"
#include "train/checkpoint_schedule.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kNumTensors = 48;  // the tensors of a UNet1D with more than a few elements

/// 200 MB.
TensorMap MakeState() {
  TensorMap state;
  for (int i = 0; i < kNumTensors; ++i) {
    state[std::to_string(i)] = torch::randn({50'000'000 / kNumTensors});
  }
  return state;
}

/// Arg: whether it is written in the background.
void CheckpointPause(benchmark::State& state) {
  const fs::path folder = fs::current_path() / "checkpoint_bench.tmp";
  const TensorMap tensors = MakeState();
  run::CheckpointStore store(folder);
  train::CheckpointWriter writer(store, /*is_background=*/state.range(0) != 0, [] {});
  const auto save = [&] {
    writer.Save({}, [&](run::CheckpointContents* contents) {
      for (const char* file : {"model", "ema", "exp_avg", "exp_avg_sq"}) {
        planner::CopyToArrays(tensors, &contents->tensors[std::string(file) + ".safetensors"]);
      }
      contents->config = contents->state = "{}";
    });
  };
  save();  // allocates the memory
  for (auto _ : state) {
    writer.Finish();
    const Clock::time_point start = Clock::now();
    save();
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - start).count());
  }
  writer.Finish();
  fs::remove_all(folder);
}
BENCHMARK(CheckpointPause)
    ->ArgName("background")
    ->Arg(1)
    ->Arg(0)
    ->UseManualTime()
    ->Iterations(5)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace dp_bench

BENCHMARK_MAIN();
