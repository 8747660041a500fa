// A policy server asked over its sockets: what an answer depends on, and what is refused.
#include "serve/policy_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include "net/client.h"
#include "support/http_get.h"
#include "support/scratch_folder.h"
#include "support/wire_values.h"

namespace dp_bench::serve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

const PolicySpec kSpec{.shape_meta = {.obs = {{.name = "image",
                                               .type = KeyType::kRgb,
                                               .shape = {3, 2, 4},
                                               .dtype = DType::kUInt8},
                                              {.name = "pos", .shape = {2}}},
                                      .action = {.name = "action", .shape = {2}}},
                       .horizons = {.horizon = 8, .n_obs_steps = 2, .n_action_steps = 3}};

// Action i of a row: 1000 seed + 100 env_step + 10 times the oldest pos[0] + the latest pos[0], and
// the sum of the latest image.
class SumPlanner final : public control::ChunkPlanner {
 public:
  int batch_size() const override { return 4; }

  void Plan(const control::ObsBatch& obs, std::span<const control::PlanRow> rows,
            std::span<float> actions) override {
    {
      std::unique_lock lock(mutex_);
      n_plans_ += 1;
      n_rows_.push_back(rows.size());
      changed_.notify_all();
      changed_.wait(lock, [this] { return !is_held_; });
    }
    if (fails_) throw std::runtime_error("no weights");
    const auto pos = obs.at("pos").as<float>();             // [4, 2, 2]
    const auto image = obs.at("image").as<std::uint8_t>();  // [4, 2, 2, 4, 3]
    for (std::size_t row = 0; row < rows.size(); ++row) {
      float sum = 0;
      for (std::size_t i = 0; i < 24; ++i) sum += static_cast<float>(image[(row * 2 + 1) * 24 + i]);
      for (std::size_t step = 0; step < 3; ++step) {
        float* const action = &actions[(row * 3 + step) * 2];
        action[0] = 1000.0F * static_cast<float>(rows[row].seed) +
                    100.0F * static_cast<float>(rows[row].env_step) + 10.0F * pos[row * 4] +
                    pos[row * 4 + 2] + gain_;
        action[1] = sum + static_cast<float>(step);
      }
    }
  }

  void Hold(bool is_held) {
    const std::lock_guard lock(mutex_);
    is_held_ = is_held;
    changed_.notify_all();
  }

  void AwaitPlan() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return n_plans_ > 0; });
  }

  std::vector<std::size_t> n_rows() {
    const std::lock_guard lock(mutex_);
    return n_rows_;
  }

  std::atomic<bool> fails_ = false;
  float gain_ = 0.0F;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_held_ = false;
  int n_plans_ = 0;
  std::vector<std::size_t> n_rows_;
};

wire::NdArray Pos(float first) { return wire::FloatArray({2}, {first, 0.0F}); }

wire::NdArray Image(std::uint8_t value) {
  return wire::ArrayOf("|u1", {2, 4, 3}, std::vector<std::uint8_t>(24, value));
}

wire::Map Obs(float pos, std::uint8_t pixel = 0) {
  return {{"pos", Pos(pos)}, {"image", Image(pixel)}};
}

wire::Map With(wire::Map map, const std::string& key, wire::Value value) {
  map.Add(key, std::move(value));
  return map;
}

// A client with openpi's messages.
class OpenPiClient {
 public:
  explicit OpenPiClient(int port)
      : connection_(net::ConnectWebSocket("ws://127.0.0.1:" + std::to_string(port), {},
                                          Clock::now() + 10s)) {
    metadata_ = Receive();
  }

  // The answer, or its text in {"error": ...}.
  wire::Map Ask(const wire::Map& message) {
    Send(message);
    return Receive();
  }

  void Send(const wire::Map& message) { SendBytes(wire::Write(message, wire::ArrayForm::kOpenPi)); }

  void SendBytes(std::string bytes) { connection_->Send(std::move(bytes), Clock::now() + 10s); }

  wire::Map Receive() {
    const net::Incoming answer = connection_->Receive(Clock::now() + 20s);
    if (answer.is_text) return {{"error", *answer.bytes}};
    return *wire::Read(answer.bytes).value.If<wire::Map>();
  }

  std::string Error(const wire::Map& message) {
    const wire::Map answer = Ask(message);
    const auto* const text = answer.Find<std::string>("error");
    return text == nullptr ? "" : *text;
  }

  const wire::Map& metadata() const { return metadata_; }

 private:
  std::unique_ptr<net::Connection> connection_;
  wire::Map metadata_;
};

std::vector<float> Actions(const wire::Map& answer) {
  const auto* const array = answer.Find<wire::NdArray>("actions");
  if (array == nullptr) {
    ADD_FAILURE() << "no actions";
    return {};
  }
  EXPECT_EQ(array->shape, (Shape{3, 2}));
  return wire::FloatsIn(*array);
}

class PolicyServerTest : public testing::Test {
 protected:
  void Start(const PolicyServerOptions& options = {},
             const std::vector<std::string>& ignored = {}) {
    auto protocol = MakeOpenPi();
    KeyMap keys = protocol->DefaultKeys(kSpec);
    keys.ignored = ignored;
    server_ = std::make_unique<PolicyServer>(
        planner_,
        PolicyInfo{.name = "sum", .checkpoint_sha256 = "abc", .spec = kSpec, .micro_batch = 4},
        std::move(protocol), keys, options);
  }

  OpenPiClient Client() { return OpenPiClient(server_->port()); }

  void AwaitQueue(int n_rows) {
    const std::string line = "dp_bench_queued_rows " + std::to_string(n_rows) + "\n";
    while (HttpGet(server_->port(), "/metrics").find(line) == std::string::npos) {
      std::this_thread::sleep_for(1ms);
    }
  }

  ScratchFolder scratch_;
  std::shared_ptr<SumPlanner> planner_ = std::make_shared<SumPlanner>();
  std::unique_ptr<PolicyServer> server_;
};

TEST_F(PolicyServerTest, TellsWhatItIs) {
  Start();
  const auto client = Client();
  const auto& own = *client.metadata().Find<wire::Map>("dp_bench");
  EXPECT_EQ(*own.Find<std::string>("policy"), "sum");
  EXPECT_EQ(*own.Find<std::string>("checkpoint_sha256"), "abc");
  EXPECT_EQ(*own.Find<bool>("deterministic"), true);
  EXPECT_EQ(*own.Find<std::int64_t>("n_obs_steps"), 2);
  EXPECT_EQ(*client.metadata().Find<std::int64_t>("action_horizon"), 3);
  EXPECT_EQ(own.Find("temporal_ensemble_coeff"), nullptr);
}

TEST(Metadata, TellTheEnsembleThatIsLeftToClients) {
  PolicyInfo info = {.name = "sum", .checkpoint_sha256 = "abc", .spec = kSpec, .micro_batch = 4};
  info.spec.horizons.temporal_ensemble_coeff = 0.01;
  const auto coeff_of = [&](const Protocol& protocol) -> std::optional<double> {
    const wire::Map metadata = Metadata(info, protocol.DefaultKeys(kSpec), protocol);
    const double* const coeff =
        metadata.Find<wire::Map>("dp_bench")->Find<double>("temporal_ensemble_coeff");
    return coeff == nullptr ? std::nullopt : std::optional(*coeff);
  };
  EXPECT_EQ(coeff_of(*MakeOpenPi()), 0.01);
  EXPECT_EQ(coeff_of(*MakeStarVla()), 0.01);
  EXPECT_EQ(coeff_of(*MakeVlaEval()), std::nullopt);  // the server does it
}

TEST_F(PolicyServerTest, AnswersWithAChunk) {
  Start();
  auto client = Client();
  EXPECT_THAT(Actions(client.Ask(Obs(1, 2))), ElementsAre(11, 48, 11, 49, 11, 50));
}

TEST_F(PolicyServerTest, RemembersObservationsUntilTheReset) {
  Start();
  auto client = Client();
  EXPECT_EQ(Actions(client.Ask(Obs(1)))[0], 11);
  EXPECT_EQ(Actions(client.Ask(Obs(2)))[0], 112);  // env step 1
  EXPECT_EQ(client.Error({{"endpoint", "reset"}}), "reset successful");
  EXPECT_EQ(Actions(client.Ask(Obs(3)))[0], 1033);  // the second episode has seed 1
}

TEST_F(PolicyServerTest, TakesSeedsAndStepsOfTheClient) {
  Start();
  auto client = Client();
  const wire::Map seeded = With(With(Obs(1), "seed", std::int64_t{7}), "step", std::int64_t{4});
  EXPECT_EQ(Actions(client.Ask(seeded))[0], 7411);
  client.Ask({{"endpoint", "reset"}, {"seed", std::int64_t{5}}});
  EXPECT_EQ(Actions(client.Ask(Obs(1)))[0], 5011);
}

TEST_F(PolicyServerTest, TakesWholeWindows) {
  Start();
  auto client = Client();
  client.Ask(Obs(9));
  const std::vector<std::uint8_t> pixels(48, 1);
  const wire::Map window = {{"pos", wire::FloatArray({2, 2}, {1.0F, 0.0F, 2.0F, 0.0F})},
                            {"image", wire::ArrayOf("|u1", {2, 2, 4, 3}, pixels)},
                            {"seed", std::int64_t{0}},
                            {"step", std::int64_t{0}}};
  EXPECT_THAT(Actions(client.Ask(window)), ElementsAre(12, 24, 12, 25, 12, 26));
}

TEST_F(PolicyServerTest, ConvertsDoubles) {
  Start();
  auto client = Client();
  const wire::NdArray pos = wire::ArrayOf<double>("<f8", {2}, {1.5, 0.0});
  EXPECT_EQ(Actions(client.Ask({{"image", Image(0)}, {"pos", pos}}))[0], 16.5F);
}

TEST_F(PolicyServerTest, KeepsSessionsApart) {
  Start();
  auto client = Client();
  auto other = Client();
  client.Ask(With(Obs(1), "session_id", "a"));
  client.Ask(With(Obs(5), "session_id", "b"));
  other.Ask(Obs(8));
  other.Ask({{"endpoint", "reset"}});
  EXPECT_EQ(Actions(client.Ask(With(Obs(2), "session_id", "a")))[0], 112);
  EXPECT_EQ(Actions(client.Ask(With(Obs(6), "session_id", "b")))[0], 156);
}

TEST_F(PolicyServerTest, AnswersBatches) {
  Start();
  auto client = Client();
  const wire::Map answer = client.Ask({{"batch", wire::List{Obs(1), Obs(2)}}});
  const auto& list = *answer.Find<wire::List>("batch");
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(Actions(*list[0].If<wire::Map>())[0], 11);
  EXPECT_EQ(Actions(*list[1].If<wire::Map>())[0], 22);
}

TEST_F(PolicyServerTest, ResetsTheRowsOfASessionAndNoOther) {
  Start();
  auto client = Client();
  const auto first = [&](float pos) {
    const wire::Map answer = client.Ask({{"batch", wire::List{Obs(pos)}}});
    return Actions(*(*answer.Find<wire::List>("batch"))[0].If<wire::Map>())[0];
  };
  client.Ask({{"endpoint", "reset"}, {"seed", std::int64_t{5}}});
  EXPECT_EQ(first(1), 5011) << "the row did not exist at the reset";
  EXPECT_EQ(first(2), 5112);
  client.Ask(With(Obs(1), "session_id", "#0"));
  client.Ask({{"endpoint", "reset"}, {"seed", std::int64_t{6}}});
  EXPECT_EQ(first(1), 6011);
  EXPECT_EQ(Actions(client.Ask(With(Obs(2), "session_id", "#0")))[0], 112);
}

TEST_F(PolicyServerTest, RefusedRequestsChangeNoRow) {
  Start();
  auto client = Client();
  const auto both = [](const wire::Map& first, const wire::Map& second) {
    return wire::Map{{"batch", wire::List{first, second}}, {"step", std::int64_t{0}}};
  };
  client.Ask(both(Obs(1), Obs(1)));
  const wire::Map bad = {{"image", Image(0)}, {"pos", Pos(NAN)}};
  EXPECT_THAT(client.Error(both(Obs(2), bad)), HasSubstr("pos"));
  const wire::Map answer = client.Ask(both(Obs(3), Obs(3)));
  const auto& list = *answer.Find<wire::List>("batch");
  EXPECT_EQ(Actions(*list[0].If<wire::Map>())[0], 13);
}

TEST_F(PolicyServerTest, RefusesMoreRowsThanABatchHas) {
  Start();
  auto client = Client();
  const wire::Map five = {{"batch", wire::List{Obs(1), Obs(2), Obs(3), Obs(4), Obs(5)}}};
  EXPECT_THAT(client.Error(five), HasSubstr("the request has 5 rows, expected at most 4"));
}

TEST_F(PolicyServerTest, LimitsTheSessionsOfAClient) {
  Start();
  auto client = Client();
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(client.Error({{"endpoint", "reset"}, {"session_id", std::to_string(i)}}),
              "reset successful");
  }
  EXPECT_THAT(client.Error({{"endpoint", "reset"}, {"session_id", "one more"}}),
              HasSubstr("256 sessions already"));
}

TEST_F(PolicyServerTest, RefusesByName) {
  Start();
  auto client = Client();
  EXPECT_THAT(client.Error({{"pos", Pos(0)}}),
              StartsWith("bad_request: the observation has no 'image'; the policy needs 'image', "
                         "'pos', found 'pos'"));
  EXPECT_THAT(client.Error(With(Obs(0), "wrist", Image(0))),
              HasSubstr("the observation has 'wrist'"));
  EXPECT_THAT(client.Error({{"image", Image(0)}, {"pos", std::int64_t{1}}}),
              HasSubstr("'pos': expected an array"));
  EXPECT_THAT(client.Error({{"image", Image(0)}, {"pos", wire::FloatArray({3}, {0, 0, 0})}}),
              HasSubstr("'pos' has shape [3], expected [2]"));
  EXPECT_THAT(client.Error({{"image", Pos(0)}, {"pos", Pos(0)}}),
              HasSubstr("'image' has shape [2]"));
  EXPECT_THAT(client.Error({{"image", Image(0)}, {"pos", Pos(NAN)}}), HasSubstr("pos"));
  EXPECT_THAT(client.Error(With(Obs(0), "seed", std::int64_t{-1})), HasSubstr("'seed'"));
  EXPECT_THAT(client.Error({{"endpoint", "kill"}}), HasSubstr("'endpoint'"));
  EXPECT_THAT(client.Error(With(Obs(0), "session_id", std::string(257, 'a'))),
              HasSubstr("'session_id': expected at most 256 bytes, found 257"));
  EXPECT_THAT(
      client.Error(With(Obs(0), "sampling_params", wire::Map{{"num_inference_steps", 3.0}})),
      HasSubstr("sampling_params"));
  EXPECT_EQ(Actions(client.Ask(Obs(1)))[0], 11) << "a refused request changed the session";
}

TEST_F(PolicyServerTest, RefusesWhatIsNoMessage) {
  Start();
  auto client = Client();
  client.SendBytes("\xc1");
  EXPECT_THAT(*client.Receive().Find<std::string>("error"), StartsWith("bad_request"));
  client.SendBytes("");
  EXPECT_THAT(*client.Receive().Find<std::string>("error"), StartsWith("bad_request"));
  EXPECT_EQ(Actions(client.Ask(Obs(1)))[0], 11);
}

TEST_F(PolicyServerTest, SaysWhatThePolicyThrows) {
  Start();
  auto client = Client();
  planner_->fails_ = true;
  EXPECT_EQ(client.Error(Obs(1)), "failed: no weights");
}

TEST_F(PolicyServerTest, RefusesMoreThanItsQueueHolds) {
  Start({.batcher = {.max_queue = 2}});
  planner_->Hold(true);
  std::vector<OpenPiClient> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(Client());
  clients[0].Send(Obs(1));
  planner_->AwaitPlan();  // so that the queue is empty
  clients[1].Send(Obs(1));
  clients[2].Send(Obs(1));
  AwaitQueue(2);
  EXPECT_THAT(clients[3].Error(Obs(1)), StartsWith("overloaded: 2 observations wait already; "));
  planner_->Hold(false);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(Actions(clients[static_cast<std::size_t>(i)].Receive())[0], 11);
  EXPECT_EQ(Actions(clients[3].Ask(Obs(1)))[0], 11) << "what was refused was remembered";
}

TEST_F(PolicyServerTest, AnIdleServerTakesARequestOfMoreRowsThanItsQueueHolds) {
  Start({.batcher = {.max_queue = 2}});
  auto client = Client();
  const wire::Map answer = client.Ask({{"batch", wire::List{Obs(1), Obs(1), Obs(1)}}});
  EXPECT_NE(answer.Find("batch"), nullptr);
}

TEST_F(PolicyServerTest, TakesImagesThatItIgnores) {
  Start({}, {"wrist"});
  auto client = Client();
  const std::vector<std::uint8_t> pixels(480 * 640 * 3);
  const wire::NdArray wrist = wire::ArrayOf("|u1", {480, 640, 3}, pixels);
  EXPECT_EQ(Actions(client.Ask(With(Obs(1), "wrist", wrist)))[0], 11);
}

TEST_F(PolicyServerTest, AnswersDoNotDependOnCompanions) {
  Start({.net = {.max_clients = 200}});  // those of the last round may not be gone yet
  const auto ask = [&](std::size_t n_clients, unsigned shuffle) {
    std::vector<std::thread> threads;
    std::vector<std::vector<float>> answers(n_clients);
    for (std::size_t i = 0; i < n_clients; ++i) {
      threads.emplace_back([&, i] {
        std::minstd_rand random(shuffle + static_cast<unsigned>(i));
        auto client = Client();
        client.Ask({{"endpoint", "reset"}, {"seed", static_cast<std::int64_t>(i % 4)}});
        for (int step = 0; step < 20; ++step) {
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
          const std::vector<float> actions =
              Actions(client.Ask(Obs(static_cast<float>(step), static_cast<std::uint8_t>(i % 4))));
          answers[i].insert(answers[i].end(), actions.begin(), actions.end());
        }
        if (i % 3 == 2) client.Send(Obs(0));  // and leaves
      });
    }
    for (std::thread& thread : threads) thread.join();
    return answers;
  };
  const auto alone = ask(1, 1)[0];
  for (const std::size_t n : {4U, 16U, 64U}) {
    const auto answers = ask(n, static_cast<unsigned>(n));
    for (std::size_t i = 0; i < n; i += 4) EXPECT_EQ(answers[i], alone) << n << " clients";
  }
}

TEST_F(PolicyServerTest, PlansForClientsInStepTogether) {
  Start({.batcher = {.max_wait = 60s}});
  planner_->Hold(true);
  std::vector<OpenPiClient> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(Client());
  clients[0].Send(Obs(1));
  planner_->AwaitPlan();
  for (std::size_t i = 1; i < 4; ++i) clients[i].Send(Obs(1));
  AwaitQueue(3);
  planner_->Hold(false);
  clients[0].Receive();
  clients[0].Send(Obs(1));  // the other three have waited for it
  for (OpenPiClient& client : clients) client.Receive();
  EXPECT_THAT(planner_->n_rows(), ElementsAre(1, 4));
}

TEST_F(PolicyServerTest, ChangesThePolicyAndKeepsSessions) {
  Start();
  auto client = Client();
  EXPECT_EQ(Actions(client.Ask(Obs(1)))[0], 11);
  auto next = std::make_shared<SumPlanner>();
  next->gain_ = 0.5F;
  server_->Replace(next,
                   {.name = "sum", .checkpoint_sha256 = "def", .spec = kSpec, .micro_batch = 4});
  EXPECT_EQ(Actions(client.Ask(Obs(2)))[0], 112.5F);
  const auto newcomer = Client();
  const auto& own = *newcomer.metadata().Find<wire::Map>("dp_bench");
  EXPECT_EQ(*own.Find<std::string>("checkpoint_sha256"), "def");
}

TEST_F(PolicyServerTest, CountsForPrometheus) {
  Start();
  auto client = Client();
  client.Ask(Obs(1));
  client.Ask({});
  const std::string page = HttpGet(server_->port(), "/metrics");
  for (const std::string line :
       {"dp_bench_requests_total 2\n", "dp_bench_clients_total 1\n",
        "dp_bench_refused_total{reason=\"bad_request\"} 1\n", "dp_bench_answer_seconds_count 1\n",
        "dp_bench_policy{policy=\"sum\",checkpoint_sha256=\"abc\"} 1\n"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
}

TEST_F(PolicyServerTest, KeepsALog) {
  const std::string log = (scratch_.path() / "serve.jsonl").string();
  Start({.log = log});
  {
    auto client = Client();
    client.Ask({});
  }
  server_->Stop(10s);
  std::ifstream file(log);
  std::vector<std::string> events;
  for (std::string line; std::getline(file, line);) {
    events.push_back(nlohmann::json::parse(line)["event"].get<std::string>());
  }
  EXPECT_THAT(events, ElementsAre("start", "open", "refuse", "close", "stop"));
}

TEST_F(PolicyServerTest, PlansNothingMoreAfterTheGrace) {
  Start();
  planner_->Hold(true);
  std::vector<OpenPiClient> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(Client());
  clients[0].Send(Obs(1));
  planner_->AwaitPlan();
  clients[1].Send(Obs(1));
  clients[2].Send(Obs(1));
  AwaitQueue(2);
  std::thread stop([&] { server_->Stop(0ms); });
  EXPECT_THROW(clients[2].Receive(), net::NetError);
  std::this_thread::sleep_for(100ms);  // so that only the plan is awaited
  planner_->Hold(false);
  stop.join();
  EXPECT_THAT(planner_->n_rows(), ElementsAre(1));
}

TEST_F(PolicyServerTest, StopsWhileItPlans) {
  Start();
  auto client = Client();
  planner_->Hold(true);
  client.Send(Obs(1));
  planner_->AwaitPlan();
  std::thread stop([&] { server_->Stop(10s); });
  std::this_thread::sleep_for(20ms);
  planner_->Hold(false);
  EXPECT_EQ(Actions(client.Receive())[0], 11);
  stop.join();
}

}  // namespace
}  // namespace dp_bench::serve
