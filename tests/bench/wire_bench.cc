// How long it takes to read and write an observation of openpi: two images of 224 x 224, a state of
// 14 numbers and a prompt (301 kB).
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "wire/message.h"

namespace dp_bench::wire {
namespace {

Value MakeObservation() {
  const std::vector<std::byte> pixels(224 * 224 * 3, std::byte{7});
  const std::vector<std::byte> state(14 * sizeof(float));
  return Map{{"observation/image", CopyOf("|u1", {224, 224, 3}, pixels)},
             {"observation/wrist_image", CopyOf("|u1", {224, 224, 3}, pixels)},
             {"observation/state", CopyOf("<f4", {14}, state)},
             {"prompt", "put the red block into the drawer"}};
}

ArrayForm FormOf(const benchmark::State& state) { return static_cast<ArrayForm>(state.range(0)); }

void ReadMessage(benchmark::State& state) {
  const auto bytes = std::make_shared<const std::string>(Write(MakeObservation(), FormOf(state)));
  for (auto _ : state) benchmark::DoNotOptimize(Read(bytes));
}
BENCHMARK(ReadMessage)->ArgName("form")->DenseRange(0, 3)->Unit(benchmark::kMicrosecond);

void WriteMessage(benchmark::State& state) {
  const Value observation = MakeObservation();
  std::string bytes;
  for (auto _ : state) benchmark::DoNotOptimize(bytes = Write(observation, FormOf(state)));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes.size()));
}
BENCHMARK(WriteMessage)->ArgName("form")->DenseRange(0, 3)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace dp_bench::wire

BENCHMARK_MAIN();
