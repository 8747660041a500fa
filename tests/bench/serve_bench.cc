// What a policy server costs beside the policy: questions with two images of 224 x 224, a state and
// a prompt (301 kB) to a policy that answers at once, over the loopback.
//   bench_serve            measures with a client of ours, in this process
//   bench_serve --serve    prints its address and serves until its input ends, for
//                          peers/serve_bench.py
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/client.h"
#include "serve/policy_server.h"

namespace dp_bench::serve {
namespace {

using Clock = std::chrono::steady_clock;

PolicySpec DroidSpec() {
  const auto image = [](const char* name) {
    return KeySpec{
        .name = name, .type = KeyType::kRgb, .shape = {3, 224, 224}, .dtype = DType::kUInt8};
  };
  return {.shape_meta = {.obs = {image("image"),
                                 {.name = "state", .shape = {14}},
                                 image("wrist_image")},
                         .action = {.name = "action", .shape = {14}}},
          .horizons = {.horizon = 16, .n_obs_steps = 1, .n_action_steps = 10}};
}

class IdlePlanner final : public control::ChunkPlanner {
 public:
  int batch_size() const override { return 1; }
  void Plan(const control::ObsBatch& /*obs*/, std::span<const control::PlanRow> /*rows*/,
            std::span<float> actions) override {
    std::ranges::fill(actions, 0.0F);
  }
};

std::unique_ptr<PolicyServer> StartServer() {
  auto protocol = MakeOpenPi();
  KeyMap keys = protocol->DefaultKeys(DroidSpec());
  return std::make_unique<PolicyServer>(
      std::make_shared<IdlePlanner>(),
      PolicyInfo{.name = "idle", .spec = DroidSpec(), .micro_batch = 1}, std::move(protocol), keys,
      PolicyServerOptions{.batcher = {.max_wait = std::chrono::microseconds(0)}});
}

std::string Question() {
  const std::vector<std::byte> pixels(224 * 224 * 3, std::byte{7});
  const std::vector<std::byte> state(14 * sizeof(float));
  std::string bytes;
  wire::Write(wire::Map{{"image", wire::CopyOf("|u1", {224, 224, 3}, pixels)},
                        {"wrist_image", wire::CopyOf("|u1", {224, 224, 3}, pixels)},
                        {"state", wire::CopyOf("<f4", {14}, state)},
                        {"prompt", "put the red block into the drawer"}},
              wire::ArrayForm::kOpenPi, &bytes);
  return bytes;
}

void RoundTrip(benchmark::State& state) {
  const auto server = StartServer();
  const auto until = Clock::now() + std::chrono::minutes(5);
  const auto connection = net::ConnectWebSocket(server->address(), {}, until);
  connection->Receive(until);  // the metadata
  const std::string question = Question();
  std::vector<double> ms;
  for (auto _ : state) {
    const auto start = Clock::now();
    connection->Send(question, until);
    benchmark::DoNotOptimize(connection->Receive(until));
    ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  std::ranges::sort(ms);
  state.counters["p50_ms"] = ms[ms.size() / 2];
  state.counters["p99_ms"] = ms[ms.size() * 99 / 100];
}
BENCHMARK(RoundTrip)->Unit(benchmark::kMicrosecond)->MinTime(3.0)->UseRealTime();

int ServeUntilInputEnds() {
  const auto server = StartServer();
  std::printf("%s\n", server->address().c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}

}  // namespace
}  // namespace dp_bench::serve

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--serve") {
    return dp_bench::serve::ServeUntilInputEnds();
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
