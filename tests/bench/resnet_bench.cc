// A ResNet-18 in inference: on our convolutions, and on LibTorch's (oneDNN). Images per batch,
// edge.
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/types.h>

#include "dp_bench/policy/kernels/row_product.h"
#include "dp_bench/policy/vision/resnet.h"

namespace {

void RunNetwork(benchmark::State& state, bool uses_own_convolutions) {
  at::set_num_threads(1);
  dp_bench::policy::Resnet network{dp_bench::policy::ResnetConfig{}};
  network->eval();
  for (torch::Tensor& parameter : network->parameters()) parameter.set_requires_grad(false);
  const torch::Tensor images = torch::randn({state.range(0), 3, state.range(1), state.range(1)});
  // with gradients enabled LibTorch computes the convolutions, and no graph is kept
  const torch::AutoGradMode mode(!uses_own_convolutions);
  for (auto step : state) benchmark::DoNotOptimize(network->forward(images));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void Own(benchmark::State& state) { RunNetwork(state, true); }
void LibTorch(benchmark::State& state) { RunNetwork(state, false); }

BENCHMARK(Own)->ArgsProduct({{1, 16}, {84, 128}})->Unit(benchmark::kMillisecond);
BENCHMARK(LibTorch)->ArgsProduct({{1, 16}, {84, 128}})->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
