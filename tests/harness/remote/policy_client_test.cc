// A client of policy servers that answer late, wrongly or not at all.
#include "remote/policy_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "net/server.h"
#include "serve/protocol.h"
#include "support/error_of.h"
#include "support/wire_values.h"

namespace dp_bench::remote {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using namespace std::chrono_literals;

const PolicySpec kServed{.shape_meta = {.obs = {{.name = "pos", .shape = {2}}},
                                        .action = {.name = "action", .shape = {1}}},
                         .horizons = {.horizon = 4, .n_obs_steps = 2, .n_action_steps = 2}};

// A server that greets with `metadata` and answers each message as `answer` says; nothing: never.
class ScriptedServer final : public net::Handler {
 public:
  using Answer = std::function<std::optional<net::Outgoing>(const wire::Map&)>;

  explicit ScriptedServer(Answer answer, wire::Map metadata = {},
                          std::unique_ptr<net::Server> server = net::MakeWebSocketServer({}))
      : answer_(std::move(answer)), metadata_(std::move(metadata)), server_(std::move(server)) {
    server_->Start(*this);
  }
  ~ScriptedServer() override { server_->Stop(0ms); }

  std::string url(const std::string& scheme = "ws") const {
    return scheme + "://127.0.0.1:" + std::to_string(server_->port());
  }

  std::optional<net::Outgoing> Opened(net::ClientId) override {
    ++n_opened_;
    return Packed(metadata_);
  }
  bool Received(net::ClientId client, net::Bytes bytes) override {
    ++n_asked_;
    last_client_ = client;
    const wire::Message message = wire::Read(std::move(bytes));
    auto answer = answer_(*message.value.If<wire::Map>());
    if (answer) server_->Send(client, std::move(*answer));
    return true;
  }
  void Closed(net::ClientId) override {}
  std::optional<net::HttpAnswer> Get(std::string_view) override { return std::nullopt; }

  static net::Outgoing Packed(const wire::Map& map) {
    return {.bytes = wire::Write(map, wire::ArrayForm::kOpenPi)};
  }

  std::atomic<int> n_opened_ = 0;
  std::atomic<int> n_asked_ = 0;
  std::atomic<net::ClientId> last_client_ = 0;

 private:
  Answer answer_;
  wire::Map metadata_;
  std::unique_ptr<net::Server> server_;
};

net::Outgoing Chunk(const std::vector<float>& actions, Shape shape) {
  return ScriptedServer::Packed({{"actions", wire::FloatArray(std::move(shape), actions)}});
}

std::optional<net::Outgoing> OneChunk(const wire::Map&) { return Chunk({1, 2}, {2, 1}); }
std::optional<net::Outgoing> Nothing(const wire::Map&) { return std::nullopt; }

std::unique_ptr<PolicyClient> ClientOf(const ScriptedServer& server,
                                       PolicyClientOptions options = {}) {
  options.url = server.url();
  options.answer_time = 200ms;
  return std::make_unique<PolicyClient>(
      options,
      MakeDialect("openpi",
                  {.spec = kServed, .keys = DefaultKeys("openpi", kServed), .instruction = "push"}),
      kServed);
}

std::vector<Question> Questions(std::size_t n) {
  std::vector<Question> questions(n);
  for (std::size_t i = 0; i < n; ++i) {
    Array pos(DType::kFloat32, {2, 2});
    for (std::size_t j = 0; j < 4; ++j) pos.as<float>()[j] = static_cast<float>(10 * i + j);
    questions[i].obs.emplace("pos", std::move(pos));
    questions[i].seed = i;
  }
  return questions;
}

std::vector<float> Numbers(const wire::Map& message) {
  return wire::FloatsIn(*message.Find<wire::NdArray>("pos"));
}

TEST(PolicyClients, SendTheLatestStepToServersOfOthers) {
  const ScriptedServer server([](const wire::Map& message) {
    EXPECT_EQ(*message.Find<std::string>("prompt"), "push");
    EXPECT_EQ(message.Find("seed"), nullptr);
    const std::vector<float> numbers = Numbers(message);
    EXPECT_EQ(numbers.size(), 2U);
    return Chunk({numbers[0], numbers[1]}, {2, 1});
  });
  const auto client = ClientOf(server);
  const auto outcomes = client->Ask(Questions(3));
  EXPECT_THAT(outcomes[2].chunk, ElementsAre(22, 23));
  EXPECT_EQ(client->counts().n_questions, 3U);
}

TEST(PolicyClients, SendWindowsAndSeedsToOurServers) {
  const ScriptedServer server(
      [](const wire::Map& message) {
        EXPECT_EQ(message.Find<wire::NdArray>("pos")->shape, (Shape{2, 2}));
        return Chunk({Numbers(message)[0], static_cast<float>(*message.Find<std::int64_t>("seed"))},
                     {2, 1});
      },
      {{"dp_bench", wire::Map{{"version", "0"}}}});
  EXPECT_THAT(ClientOf(server)->Ask(Questions(2))[1].chunk, ElementsAre(10, 1));
}

TEST(PolicyClients, RefuseAServerThatObservesOtherSteps) {
  const ScriptedServer server(Nothing, {{"dp_bench", wire::Map{{"n_obs_steps", 3}}}});
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { ClientOf(server); }),
              HasSubstr("the server's policy observes 3 steps, but n_obs_steps is 2; set "
                        "n_obs_steps=3"));
}

TEST(Dialects, PutKeysWhereTheServerWantsThem) {
  const PolicySpec spec{.shape_meta = {.obs = {{.name = "cam",
                                                .type = KeyType::kRgb,
                                                .shape = {3, 1, 2},
                                                .dtype = DType::kUInt8}},
                                       .action = {.name = "action", .shape = {1}}},
                        .horizons = {.horizon = 4, .n_obs_steps = 1, .n_action_steps = 2}};
  const auto keys = serve::KeyMap::FromConfig(
      Config::FromJson(R"({"obs": {"cam": {"key": "images/top", "layout": "chw", "size": [2, 4]}},
                           "instruction": "task/text", "nested": true})"),
      DefaultKeys("openpi", spec));
  const auto dialect = MakeDialect("openpi", {.spec = spec, .keys = keys, .instruction = "push"});
  Question question;
  Array cam(DType::kUInt8, {1, 1, 2, 3});
  for (std::size_t i = 0; i < 6; ++i)
    cam.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(10 * (i % 3));
  question.obs.emplace("cam", std::move(cam));
  const wire::Message message =
      wire::Read(std::make_shared<const std::string>(dialect->Ask(question)));
  const auto& map = *message.value.If<wire::Map>();
  EXPECT_EQ(*map.Find<wire::Map>("task")->Find<std::string>("text"), "push");
  const auto& top = *map.Find<wire::Map>("images")->Find<wire::NdArray>("top");
  EXPECT_EQ(top.shape, (Shape{3, 2, 4}));
  for (std::size_t i = 0; i < 24; ++i) {
    EXPECT_EQ(std::to_integer<int>(top.bytes()[i]), 10 * static_cast<int>(i / 8)) << i;
  }
}

// The part "s" of a question to GR00T. In its two steps, "grip" is 1 and 2, and "joints" 3, 4 and
// 5, 6.
wire::NdArray Joined(const std::string& keys) {
  const PolicySpec spec{
      .shape_meta = {.obs = {{.name = "grip", .shape = {1}}, {.name = "joints", .shape = {2}}},
                     .action = {.name = "action", .shape = {1}}},
      .horizons = {.horizon = 4, .n_obs_steps = 2, .n_action_steps = 2}};
  const auto dialect = MakeDialect(
      "groot", {.spec = spec,
                .keys = serve::KeyMap::FromConfig(Config::FromJson("{\"obs\": " + keys + "}"),
                                                  DefaultKeys("groot", spec))});
  Question question;
  float next = 1.0F;
  for (const KeySpec& key : spec.shape_meta.obs) {
    Array window(DType::kFloat32, {2, key.shape[0]});
    for (std::size_t i = 0; i < window.bytes().size() / sizeof(float); ++i) {
      window.as<float>()[i] = next++;
    }
    question.obs.emplace(key.name, std::move(window));
  }
  const wire::Message message =
      wire::Read(std::make_shared<const std::string>(dialect->Ask(question)));
  return *serve::FindPath(*message.value.If<wire::Map>(), "data/observation/s")
              ->If<wire::NdArray>();
}

TEST(Dialects, JoinKeysOfOneArrayInTheOrderOfTheirNumbers) {
  const wire::NdArray joined =
      Joined(R"({"grip": {"key": "s", "first": 2}, "joints": {"key": "s", "first": 0}})");
  EXPECT_EQ(joined.shape, (Shape{1, 2, 3}));
  EXPECT_THAT(wire::FloatsIn(joined), ElementsAre(3, 4, 1, 5, 6, 2));
}

TEST(Dialects, RefuseKeysThatLeaveNumbersOfAnArrayOut) {
  const auto refusal = [](const std::string& keys) {
    return MessageOf(ErrorCode::kConfig, [&] { Joined(keys); });
  };
  EXPECT_THAT(refusal(R"({"grip": {"key": "s", "first": 3}, "joints": {"key": "s", "first": 0}})"),
              HasSubstr("'grip' begins at 3 of 's', and the keys before it have 2 numbers"));
  EXPECT_THAT(refusal(R"({"grip": {"key": "s", "first": 1}})"),
              HasSubstr("'grip' begins at 1 of 's', and the keys before it have 0 numbers"));
}

TEST(PolicyClients, SendTheKeyInGrootsMessages) {
  const ScriptedServer server(
      [](const wire::Map& message) -> std::optional<net::Outgoing> {
        const auto* const key = message.Find<std::string>("api_token");
        if (key == nullptr || *key != "secret") {
          return ScriptedServer::Packed({{"error", "Unauthorized"}});
        }
        if (*message.Find<std::string>("endpoint") == "ping") {
          return ScriptedServer::Packed({{"status", "ok"}});
        }
        const wire::Map chunk = {{"action", wire::FloatArray({1, 2, 1}, {1, 2})}};
        return net::Outgoing{
            .bytes = wire::Write(wire::List{chunk, wire::Map()}, wire::ArrayForm::kMsgpackNumpy)};
      },
      {}, net::MakeZmqServer({}, ""));
  const auto ask = [&](const std::string& key) {
    PolicyClient client(
        {.url = server.url("tcp"), .api_key = key},
        MakeDialect("groot", {.spec = kServed, .keys = DefaultKeys("groot", kServed)}), kServed);
    return client.Ask(Questions(1))[0].chunk;
  };
  EXPECT_THAT(ask("secret"), ElementsAre(1, 2));
  EXPECT_THAT(MessageOf(ErrorCode::kPlugin, [&] { ask(""); }),
              HasSubstr("the server refuses: Unauthorized"));
}

TEST(PolicyClients, RefuseAHelloWithoutPayload) {
  const ScriptedServer server(Nothing, {{"type", "hello"}});
  EXPECT_THAT(MessageOf(ErrorCode::kData,
                        [&] {
                          PolicyClient({.url = server.url()},
                                       MakeDialect("vla_eval", {.spec = kServed}), kServed);
                        }),
              HasSubstr("the server did not answer hello"));
}

TEST(PolicyClients, TakeTheFirstActionsOfALongerChunk) {
  const ScriptedServer server([](const wire::Map&) { return Chunk({1, 2, 3, 4}, {4, 1}); });
  EXPECT_THAT(ClientOf(server)->Ask(Questions(1))[0].chunk, ElementsAre(1, 2));
}

TEST(PolicyClients, NameActionsThatDoNotFit) {
  for (const Shape& shape : {Shape{1, 1}, Shape{2}, Shape{1, 2}, Shape{2, 1, 1, 1}}) {
    const ScriptedServer server([&](const wire::Map&) {
      return Chunk(std::vector<float>(static_cast<std::size_t>(NumElements(shape))), shape);
    });
    EXPECT_THAT(ClientOf(server)->Ask(Questions(1))[0].fault,
                HasSubstr("expected [2 or more, 1] (n_action_steps, action)"));
  }
}

TEST(PolicyClients, PassOnWhatTheServerRefuses) {
  const ScriptedServer server([](const wire::Map&) {
    return net::Outgoing{.bytes = "Traceback: KeyError 'image'", .is_text = true};
  });
  const auto client = ClientOf(server);
  EXPECT_EQ(client->Ask(Questions(1))[0].fault, "policy_error: Traceback: KeyError 'image'");
  EXPECT_EQ(server.n_asked_, 1) << "a refusal was asked again";
}

TEST(PolicyClients, AskAgainWhenTheServerIsOverloaded) {
  std::atomic<int> n = 0;
  const ScriptedServer server([&](const wire::Map&) {
    return ++n < 3 ? net::Outgoing{.bytes = "overloaded: 9 wait already", .is_text = true}
                   : Chunk({1, 2}, {2, 1});
  });
  const auto client = ClientOf(server);
  EXPECT_THAT(client->Ask(Questions(1))[0].chunk, ElementsAre(1, 2));
  EXPECT_EQ(client->counts().n_retries, 2U);
}

TEST(PolicyClients, CountTimeouts) {
  const ScriptedServer server(Nothing);
  const auto client = ClientOf(server, {.n_retries = 1});
  EXPECT_THAT(client->Ask(Questions(1))[0].fault, StartsWith("policy_timeout: ws://127.0.0.1:"));
  EXPECT_EQ(client->counts().n_timeouts, 2U);
  EXPECT_EQ(client->counts().n_faults, 1U);
}

TEST(PolicyClients, GiveUpOnceTheServerHasGone) {
  for (const bool is_stateful : {false, true}) {
    auto server = std::make_unique<ScriptedServer>(
        OneChunk,
        wire::Map{{"dp_bench", wire::Map{{"stateful", is_stateful}, {"micro_batch", 4}}}});
    const auto client = ClientOf(*server, {.n_retries = 0, .connect_time = 100ms});
    client->Ask(Questions(8));
    server.reset();
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT(MessageOf(ErrorCode::kUnavailable, [&] { client->Ask(Questions(2)); }),
                  StartsWith("the policy server has gone: ws://127.0.0.1:"));
    }
  }
}

TEST(PolicyClients, WaitForAServerThatStartsAgain) {
  auto server = std::make_unique<ScriptedServer>(OneChunk);
  const std::string url = server->url();
  const auto client = ClientOf(*server);
  client->Ask(Questions(4));
  server.reset();
  std::unique_ptr<ScriptedServer> again;
  const std::jthread restart([&] {
    std::this_thread::sleep_for(300ms);
    const int port = std::stoi(url.substr(url.rfind(':') + 1));
    again = std::make_unique<ScriptedServer>(OneChunk, wire::Map{},
                                             net::MakeWebSocketServer({.port = port}));
  });
  for (const Outcome& outcome : client->Ask(Questions(4))) EXPECT_EQ(outcome.fault, "");
}

TEST(PolicyClients, ConnectAgainAfterWhatIsNoAnswer) {
  std::atomic<int> n = 0;
  const ScriptedServer server([&](const wire::Map&) {
    net::Outgoing answer = Chunk({1, 2}, {2, 1});
    if (++n == 1) answer = {.bytes = "gone"};
    return answer;
  });
  const auto client = ClientOf(server);
  EXPECT_THAT(client->Ask(Questions(1))[0].fault, StartsWith("policy_error: ")) << "no message";
  EXPECT_THAT(client->Ask(Questions(1))[0].chunk, ElementsAre(1, 2));
  EXPECT_EQ(server.n_opened_, 2);
}

TEST(PolicyClients, AskOthersAlthoughOneIsNotAnswered) {
  const ScriptedServer server([](const wire::Map& message) -> std::optional<net::Outgoing> {
    if (Numbers(message)[0] == 22) return std::nullopt;
    return Chunk({1, 2}, {2, 1});
  });
  const auto client = ClientOf(server, {.n_connections = 2, .n_retries = 0});
  const auto outcomes = client->Ask(Questions(5));
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(outcomes[i].fault.empty(), i != 2) << i;
}

TEST(PolicyClients, ContinueAnEpisodeWhereItBeganLast) {
  const ScriptedServer server(OneChunk, {{"dp_bench", wire::Map{{"stateful", true}}}});
  const auto client = ClientOf(server);
  std::vector<Question> question = Questions(1);
  client->Ask(question);
  const net::ClientId first = server.last_client_;
  client->Ask(question);
  const net::ClientId second = server.last_client_;
  ASSERT_NE(first, second);
  question[0].step = 1;
  client->Ask(question);
  EXPECT_EQ(server.last_client_, second);
}

// Each question one after the other.
void AskEach(PolicyClient* client, std::vector<Question> questions, std::uint64_t step) {
  for (Question& question : questions) {
    question.step = step;
    EXPECT_EQ(client->Ask({&question, 1})[0].fault, "") << question.seed << " at step " << step;
  }
}

const wire::Map kStateful = {{"dp_bench", wire::Map{{"stateful", true}, {"micro_batch", 1}}}};

TEST(PolicyClients, DoNotRepeatAStepForAServerThatHasForgottenTheEpisode) {
  const ScriptedServer server(
      [](const wire::Map& message) -> std::optional<net::Outgoing> {
        if (*message.Find<std::int64_t>("step") > 0) return std::nullopt;
        return Chunk({1, 2}, {2, 1});
      },
      kStateful);
  const auto client = ClientOf(server);
  std::vector<Question> question = Questions(1);
  AskEach(client.get(), question, 0);
  question[0].step = 1;
  EXPECT_THAT(client->Ask(question)[0].fault, StartsWith("policy_timeout: "));
  EXPECT_EQ(server.n_asked_, 2);
  EXPECT_THAT(client->Ask(question)[0].fault,
              HasSubstr("policy_disconnected: the connection was lost, and the server has "
                        "forgotten the episode"));
}

TEST(PolicyClients, AnswerNoStepOfASecondEpisodeWithTheSameSeedFromTheMemoryOfTheFirst) {
  const ScriptedServer server(OneChunk, kStateful);
  const auto client = ClientOf(server);
  std::vector<Question> question = Questions(1);
  for (const std::uint64_t step : {0, 2, 4, 0, 4}) AskEach(client.get(), question, step);
  for (const std::uint64_t step : {4, 2}) {
    question[0].step = step;
    EXPECT_THAT(client->Ask(question)[0].fault,
                HasSubstr("two episodes with the seed 0 are played at once"))
        << step;
  }
  AskEach(client.get(), question, 6);
}

TEST(PolicyClients, AskAgainAboutAStepThatAServerWithMemoryHadNoTimeFor) {
  std::atomic<int> n = 0;
  const ScriptedServer server(
      [&](const wire::Map&) {
        return ++n == 2 ? net::Outgoing{.bytes = "overloaded: 9 wait already", .is_text = true}
                        : Chunk({1, 2}, {2, 1});
      },
      kStateful);
  const auto client = ClientOf(server);
  AskEach(client.get(), Questions(1), 0);
  AskEach(client.get(), Questions(1), 1);
  EXPECT_EQ(client->counts().n_retries, 1U);
}

TEST(PolicyClients, AskAsManyAtOnceAsTheServerPlans) {
  const ScriptedServer server(OneChunk, {{"dp_bench", wire::Map{{"micro_batch", 1}}}});
  ClientOf(server)->Ask(Questions(5));
  EXPECT_EQ(server.n_opened_, 1);
}

TEST(PolicyClients, LeaveEachEpisodeThatRunsItsConnection) {
  const ScriptedServer server(OneChunk, kStateful);
  const auto client = ClientOf(server);
  for (std::uint64_t step = 0; step < 3; ++step) AskEach(client.get(), Questions(20), step);
  EXPECT_EQ(server.n_opened_, 20);
}

TEST(PolicyClients, UseTheConnectionsOfEpisodesThatHaveEndedAgain) {
  const ScriptedServer server(OneChunk, kStateful);
  const auto client = ClientOf(server);
  std::vector<Question> question = Questions(1);
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    question[0].seed = seed;
    for (std::uint64_t step = 0; step < 20; ++step) AskEach(client.get(), question, step);
  }
  EXPECT_LT(server.n_opened_, 5);
}

// As with long chunks.
TEST(PolicyClients, UseThemAgainIfEpisodesAskTwice) {
  const ScriptedServer server(OneChunk, kStateful);
  const auto client = ClientOf(server);
  std::vector<Question> questions = Questions(8);
  for (std::uint64_t seed = 0; seed < 50 * questions.size(); seed += questions.size()) {
    for (std::size_t i = 0; i < questions.size(); ++i) questions[i].seed = seed + i;
    for (std::uint64_t step = 0; step < 2; ++step) AskEach(client.get(), questions, step);
  }
  EXPECT_LT(server.n_opened_, 70);
}

TEST(PolicyClients, RefuseObservationsNamedLikeWhatTheProtocolAdds) {
  PolicySpec spec = kServed;
  spec.shape_meta.obs = {{.name = "step", .shape = {1}}};
  const auto connect = [&](const ScriptedServer& server, const std::string& instruction) {
    PolicyClient({.url = server.url()},
                 MakeDialect("openpi", {.spec = spec,
                                        .keys = DefaultKeys("openpi", spec),
                                        .instruction = instruction}),
                 spec);
  };
  const ScriptedServer own(Nothing, {{"dp_bench", wire::Map{}}});
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { connect(own, ""); }),
              HasSubstr("two parts of a request are called 'step'"));
  const ScriptedServer of_others(Nothing);
  connect(of_others, "push");
  spec.shape_meta.obs[0].name = "prompt";
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { connect(of_others, "push"); }),
              HasSubstr("two parts of a request are called 'prompt'"));
}

TEST(PolicyClients, SayThatNobodyIsThere) {
  const DialectOptions options{.spec = kServed, .keys = DefaultKeys("openpi", kServed)};
  EXPECT_THAT(MessageOf(ErrorCode::kConfig,
                        [&] { PolicyClient({}, MakeDialect("openpi", options), kServed); }),
              HasSubstr("found neither"));
  EXPECT_THAT(MessageOf(ErrorCode::kPlugin,
                        [&] {
                          PolicyClient({.url = "ws://127.0.0.1:1"}, MakeDialect("openpi", options),
                                       kServed);
                        }),
              HasSubstr("Connection refused. Is it running?"));
}

}  // namespace
}  // namespace dp_bench::remote
