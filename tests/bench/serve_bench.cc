// What a policy server costs beside the policy: questions with two images of 224 x 224, a state and
// a prompt (301 kB) to a policy that answers at once, over the loopback.
//   bench_serve            measures with a client of ours, in this process
//   bench_serve --serve    prints its address and serves until its input ends, for
//                          peers/serve_bench.py
//   bench_serve --floor    the same with a server that only reads what comes, without a look at it,
//                          and answers with bytes that it has: what the client and the kernel take
#include <benchmark/benchmark.h>

#include <algorithm>
#include <boost/asio.hpp>
#include <boost/beast/websocket.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/client.h"
#include "serve/policy_server.h"

namespace dp_bench::serve {
namespace {

using Clock = std::chrono::steady_clock;
namespace asio = boost::asio;

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
  return wire::Write(wire::Map{{"image", wire::CopyOf("|u1", {224, 224, 3}, pixels)},
                               {"wrist_image", wire::CopyOf("|u1", {224, 224, 3}, pixels)},
                               {"state", wire::CopyOf("<f4", {14}, state)},
                               {"prompt", "put the red block into the drawer"}},
                     wire::ArrayForm::kOpenPi);
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

// The length of the first frame's data and of what is before them; nothing if not all of its head
// is there. (RFC 6455, 5.2)
std::optional<std::pair<std::size_t, std::size_t>> FrameSize(std::span<const unsigned char> bytes) {
  constexpr std::size_t kMask = 4;
  if (bytes.size() < 2) return std::nullopt;
  const std::size_t length = bytes[1] & 127U;
  const std::size_t n_more = length == 127 ? 8 : length == 126 ? 2 : 0;
  if (bytes.size() < 2 + n_more) return std::nullopt;
  std::size_t size = n_more == 0 ? length : 0;
  for (std::size_t i = 0; i < n_more; ++i) size = size << 8U | bytes[2 + i];
  return std::pair(size, 2 + n_more + kMask);
}

// Reads frames from `socket` and answers each with `answer`, until the client is gone.
void AnswerWithout(asio::ip::tcp::socket* socket, const std::string& answer) {
  std::vector<unsigned char> buffer(std::size_t{1} << 20);
  std::size_t n = 0;
  boost::system::error_code error;
  while (!error) {
    n += socket->read_some(asio::buffer(buffer.data() + n, buffer.size() - n), error);
    const auto frame = FrameSize({buffer.data(), n});
    if (!frame || n < frame->first + frame->second) continue;
    n = 0;
    asio::write(*socket, asio::buffer(answer), error);
  }
}

// The answer of StartServer's policy to any question, as a frame.
std::string AnswerFrame() {
  const auto server = StartServer();
  const auto until = Clock::now() + std::chrono::minutes(1);
  const auto connection = net::ConnectWebSocket(server->address(), {}, until);
  connection->Receive(until);  // the metadata
  connection->Send(Question(), until);
  const std::string answer = *connection->Receive(until).bytes;
  const auto size = static_cast<std::uint16_t>(answer.size());
  return std::string{'\x82', 126, static_cast<char>(size >> 8U), static_cast<char>(size & 255U)} +
         answer;
}

void ServeFloor() {
  const std::string answer = AnswerFrame();
  asio::io_context io;
  asio::ip::tcp::acceptor acceptor(io, {asio::ip::make_address("127.0.0.1"), 0});
  std::printf("ws://127.0.0.1:%d\n", acceptor.local_endpoint().port());
  std::fflush(stdout);
  asio::ip::tcp::socket socket = acceptor.accept();
  socket.set_option(asio::ip::tcp::no_delay(true));
  boost::beast::websocket::stream<asio::ip::tcp::socket&> stream(socket);
  stream.accept();
  stream.binary(true);
  stream.write(asio::buffer("\x80", 1));  // metadata: an empty map
  AnswerWithout(&socket, answer);
}

}  // namespace
}  // namespace dp_bench::serve

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--serve") {
    return dp_bench::serve::ServeUntilInputEnds();
  }
  if (argc > 1 && std::string_view(argv[1]) == "--floor") {
    dp_bench::serve::ServeFloor();
    return 0;
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
