// The UNet1D of 4.6 M parameters on PushT's shapes: one training step (forward, backward, AdamW,
// EMA) and one DDIM-10 action chunk. tests/bench/peers/unet_bench.py runs it side by side with
// LeRobot's network.
#include "policy_bench.h"
#include "support/plugin_policy.h"
namespace dp_bench {
namespace {

std::unique_ptr<Policy> Create(const PolicySpec& spec) {
  return CreatePluginDiffusion(
      Config::FromJson(R"({"noise_scheduler": {"type": "ddim", "num_inference_steps": 10}})"),
      spec);
}

void TrainStep(benchmark::State& state) { RunTrainStep(state, Create); }
BENCHMARK(TrainStep)->Arg(256)->UseRealTime()->Unit(benchmark::kMillisecond);

void TrainStepBf16(benchmark::State& state) {
  RunTrainStep(state, Create, train::MixedPrecision::kBf16);
}
BENCHMARK(TrainStepBf16)
    ->Name("TrainStep/bf16")
    ->Arg(256)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void PredictAction(benchmark::State& state) { RunPredictAction(state, Create); }
BENCHMARK(PredictAction)->Arg(1)->Arg(16)->Arg(50)->UseRealTime()->Unit(benchmark::kMillisecond);

void PredictActionBf16(benchmark::State& state) {
  RunPredictAction(state, Create, WeightFormat::kBf16);
}
BENCHMARK(PredictActionBf16)
    ->Name("PredictAction/bf16")
    ->Arg(1)
    ->Arg(16)
    ->Arg(50)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// the network's most frequent product: a tap of 256 channels at T = 4, B = 256
void Sgemm(benchmark::State& state) { RunSgemm(state, 256, 256, 1024); }
BENCHMARK(Sgemm)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace dp_bench

BENCHMARK_MAIN();
