// The transformer of configs/policy/transformer.json on PushT's shapes: one training step (forward,
// backward, AdamW, EMA), the same with dropout, and one DDIM-10 action chunk.
// tests/bench/peers/transformer_bench.py runs it side by side with PyTorch's modules.
#include "policy_bench.h"
#include "support/plugin_policy.h"
namespace dp_bench {
namespace {

constexpr const char* kPlain = R"({"n_layer": 4, "n_head": 6, "n_emb": 192, "p_drop_emb": 0.0,
  "p_drop_attn": 0.0, "noise_scheduler": {"type": "ddim", "num_inference_steps": 10}})";
constexpr const char* kDropout = R"({"n_layer": 4, "n_head": 6, "n_emb": 192, "p_drop_emb": 0.1,
  "p_drop_attn": 0.1})";

// diffusion_policy's network for PushT (train_diffusion_transformer_lowdim_pusht_workspace.yaml)
constexpr const char* kLarge = R"({"n_layer": 8, "n_head": 4, "n_emb": 256, "p_drop_emb": 0.0,
  "p_drop_attn": 0.3, "causal_attn": true})";

PolicyFactory With(const char* params) {
  return [params](const PolicySpec& spec) -> std::unique_ptr<Policy> {
    return CreatePluginDiffusion(Config::FromJson(params), spec);
  };
}

void TrainStep(benchmark::State& state, const char* params) { RunTrainStep(state, With(params)); }
BENCHMARK_CAPTURE(TrainStep, plain, kPlain)->Arg(256)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(TrainStep, dropout, kDropout)
    ->Arg(256)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

BENCHMARK_CAPTURE(TrainStep, large, kLarge)->Arg(256)->UseRealTime()->Unit(benchmark::kMillisecond);

void TrainStepBf16(benchmark::State& state, const char* params) {
  RunTrainStep(state, With(params), train::MixedPrecision::kBf16);
}
BENCHMARK_CAPTURE(TrainStepBf16, plain, kPlain)
    ->Name("TrainStep/plain_bf16")
    ->Arg(256)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(TrainStepBf16, large, kLarge)
    ->Name("TrainStep/large_bf16")
    ->Arg(256)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void PredictAction(benchmark::State& state) { RunPredictAction(state, With(kPlain)); }
BENCHMARK(PredictAction)->Arg(1)->Arg(16)->Arg(50)->UseRealTime()->Unit(benchmark::kMillisecond);

void PredictActionBf16(benchmark::State& state) {
  RunPredictAction(state, With(kPlain), WeightFormat::kBf16);
}
BENCHMARK(PredictActionBf16)
    ->Name("PredictAction/bf16")
    ->Arg(1)
    ->Arg(16)
    ->Arg(50)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// the network's largest product at B = 256
void Sgemm(benchmark::State& state) { RunSgemm(state, 4096, 192, 768); }
BENCHMARK(Sgemm)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace dp_bench

BENCHMARK_MAIN();
