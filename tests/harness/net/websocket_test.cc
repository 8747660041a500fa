// The WebSocket server and client against each other, and clients that misbehave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <vector>

#include "net/client.h"
#include "net/server.h"
#include "support/error_of.h"
#include "support/eventually.h"
#include "support/http_get.h"

namespace dp_bench::net {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using namespace std::chrono_literals;
using Clock = Connection::Clock;

const std::string kUpgrade =
    "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

// Greets, and answers "hold" only when `Release` is called, "quiet" never.
class EchoHandler final : public Handler {
 public:
  std::optional<Outgoing> Opened(ClientId) override {
    ++n_opened_;
    return Outgoing{.bytes = "hello"};
  }

  bool Received(ClientId client, Bytes message) override {
    const std::lock_guard lock(mutex_);
    received_.push_back(*message);
    if (*message == "quiet") return false;
    if (*message == "hold") {
      held_.push_back(client);
      return true;
    }
    server_->Send(client, {.bytes = "<" + *message + ">"});
    return true;
  }

  void Closed(ClientId) override { ++n_closed_; }

  std::optional<HttpAnswer> Get(std::string_view path) override {
    if (path == "/metrics" || path == "/healthz") return HttpAnswer{.body = "fine\n"};
    return std::nullopt;
  }

  void Release() {
    server_->Post([this] {
      const std::lock_guard lock(mutex_);
      for (const ClientId client : held_) server_->Send(client, {.bytes = "released"});
      held_.clear();
    });
  }

  std::size_t n_received() {
    const std::lock_guard lock(mutex_);
    return received_.size();
  }

  Server* server_ = nullptr;
  std::atomic<int> n_opened_ = 0;
  std::atomic<int> n_closed_ = 0;

 private:
  std::mutex mutex_;
  std::vector<std::string> received_;
  std::vector<ClientId> held_;
};

class WebSocket : public testing::Test {
 protected:
  void Start(const ServerOptions& options) {
    server_ = MakeWebSocketServer(options);
    handler_.server_ = server_.get();
    server_->Start(handler_);
  }

  ~WebSocket() override {
    if (server_ != nullptr) server_->Stop(0ms);
  }

  std::string url() const { return "ws://127.0.0.1:" + std::to_string(server_->port()); }

  std::unique_ptr<Connection> Connect(const std::string& api_key = "") {
    auto connection = ConnectWebSocket(url(), api_key, Clock::now() + 10s);
    EXPECT_EQ(*connection->Receive(Clock::now() + 10s).bytes, "hello");
    return connection;
  }

  std::string WhyNotConnected(const std::string& api_key) const {
    try {
      ConnectWebSocket(url(), api_key, Clock::now() + 10s);
    } catch (const NetError& error) {
      return error.what();
    }
    return "it is connected";
  }

  static std::string Ask(Connection& connection, const std::string& message) {
    connection.Send(message, Clock::now() + 10s);
    return *connection.Receive(Clock::now() + 10s).bytes;
  }

  EchoHandler handler_;
  std::unique_ptr<Server> server_;
};

TEST_F(WebSocket, GreetsAndAnswersEachClient) {
  Start({});
  auto first = Connect();
  auto second = Connect();
  EXPECT_EQ(Ask(*second, "b"), "<b>");
  EXPECT_EQ(Ask(*first, "a"), "<a>");
  EXPECT_EQ(Ask(*second, std::string(3 << 20, 'x')).size(), (3U << 20) + 2);
}

TEST_F(WebSocket, AnswersOthersWhileOneWaits) {
  Start({});
  auto slow = Connect();
  auto quick = Connect();
  slow->Send("hold", Clock::now() + 10s);
  ASSERT_TRUE(Eventually([&] { return handler_.n_received() == 1; }));
  EXPECT_EQ(Ask(*quick, "a"), "<a>");
  handler_.Release();
  EXPECT_EQ(*slow->Receive(Clock::now() + 10s).bytes, "released");
}

TEST_F(WebSocket, HoldsTheNextMessageUntilTheAnswerIsWritten) {
  Start({});
  auto client = Connect();
  client->Send("hold", Clock::now() + 10s);
  client->Send("second", Clock::now() + 10s);
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(handler_.n_received(), 1U);
  handler_.Release();
  EXPECT_EQ(*client->Receive(Clock::now() + 10s).bytes, "released");
  EXPECT_EQ(*client->Receive(Clock::now() + 10s).bytes, "<second>");
}

TEST_F(WebSocket, AMessageWithoutAnswerHoldsNothing) {
  Start({});
  auto client = Connect();
  client->Send("quiet", Clock::now() + 10s);
  EXPECT_EQ(Ask(*client, "a"), "<a>");
}

TEST_F(WebSocket, ReportsClientsThatLeaveOnce) {
  Start({});
  { auto client = Connect(); }
  EXPECT_TRUE(Eventually([&] { return handler_.n_closed_ == 1; }));
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(handler_.n_opened_, 1);
  EXPECT_EQ(handler_.n_closed_, 1);
}

TEST_F(WebSocket, EndsAConnectionWithALongerMessage) {
  Start({.max_message_bytes = 1000});
  auto client = Connect();
  EXPECT_EQ(Ask(*client, std::string(1000, 'x')).size(), 1002U);
  client->Send(std::string(1001, 'x'), Clock::now() + 10s);
  EXPECT_THROW(client->Receive(Clock::now() + 10s), NetError);
  EXPECT_EQ(handler_.n_received(), 1U);
}

TEST_F(WebSocket, TurnsAwayMoreClientsThanAllowed) {
  Start({.max_clients = 1});
  auto client = Connect();
  EXPECT_THAT(WhyNotConnected({}), HasSubstr("the server answered with HTTP 503"));
  EXPECT_EQ(Ask(*client, "a"), "<a>");
  client.reset();
  ASSERT_TRUE(Eventually([&] { return handler_.n_closed_ == 1; }));
  Connect();
}

TEST_F(WebSocket, GivesAPlaceToTheFirstThatAsksForIt) {
  Start({.max_clients = 1});
  const int raw = ConnectSocket(server_->port());
  auto client = Connect();
  ASSERT_GT(send(raw, kUpgrade.data(), kUpgrade.size(), MSG_NOSIGNAL), 0);
  std::string answer(12, ' ');
  EXPECT_EQ(recv(raw, answer.data(), answer.size(), MSG_WAITALL), 12);
  EXPECT_EQ(answer, "HTTP/1.1 503");
  close(raw);
}

TEST_F(WebSocket, NeedsTheKeyIfThereIsOne) {
  Start({.api_key = "secret"});
  EXPECT_THAT(WhyNotConnected({}), HasSubstr("the server answered with HTTP 401"));
  EXPECT_THAT(WhyNotConnected("secres"), HasSubstr("expected a WebSocket"));
  auto client = Connect("secret");
  EXPECT_EQ(Ask(*client, "a"), "<a>");
  EXPECT_THAT(HttpGet(server_->port(), "/metrics"), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(HttpGet(server_->port(), "/healthz"), StartsWith("HTTP/1.1 200"));
}

TEST_F(WebSocket, ServesPages) {
  Start({});
  EXPECT_THAT(HttpGet(server_->port(), "/metrics"), HasSubstr("fine\n"));
  EXPECT_THAT(HttpGet(server_->port(), "/other"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Speak(server_->port(), "POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n"),
              StartsWith("HTTP/1.1 405"));
}

TEST_F(WebSocket, RefusesWebPages) {
  Start({});
  const std::string request = kUpgrade.substr(0, kUpgrade.size() - 2);
  EXPECT_THAT(Speak(server_->port(), request + "Origin: http://evil.example\r\n\r\n"),
              StartsWith("HTTP/1.1 403"));
  EXPECT_EQ(handler_.n_opened_, 0);
}

TEST_F(WebSocket, DropsThoseWhoSendHalfAMessage) {
  Start({.transfer_time = 200ms});
  auto other = Connect();
  const int raw = ConnectSocket(server_->port());
  // a frame of 100 masked bytes, of which ten come
  std::string frame("\x82\xE4\0\0\0\0", 6);
  frame.append(10, 'x');
  ASSERT_GT(send(raw, kUpgrade.data(), kUpgrade.size(), MSG_NOSIGNAL), 0);
  ASSERT_TRUE(Eventually([&] { return handler_.n_opened_ == 2; }));
  ASSERT_GT(send(raw, frame.data(), frame.size(), MSG_NOSIGNAL), 0);
  EXPECT_TRUE(Eventually([&] { return handler_.n_closed_ == 1; }));
  close(raw);
  EXPECT_EQ(Ask(*other, "a"), "<a>");
}

TEST_F(WebSocket, DropsThoseWhoSendNoRequest) {
  Start({.transfer_time = 200ms});
  const int raw = ConnectSocket(server_->port());
  char byte = 0;
  EXPECT_LE(recv(raw, &byte, 1, 0), 0);
  close(raw);
}

TEST_F(WebSocket, SurvivesWhatIsNoHttp) {
  Start({});
  EXPECT_EQ(Speak(server_->port(), std::string("\x16\x03\x01\x02\0garbage\r\n\r\n", 16)), "");
  EXPECT_THAT(
      Speak(server_->port(), "GET / HTTP/1.1\r\nX: " + std::string(100000, 'y') + "\r\n\r\n"),
      testing::Not(StartsWith("HTTP/1.1 101")));
  auto client = Connect();
  EXPECT_EQ(Ask(*client, "a"), "<a>");
}

TEST_F(WebSocket, StopsAfterItsAnswers) {
  Start({});
  auto waiting = Connect();
  auto idle = Connect();
  waiting->Send("hold", Clock::now() + 10s);
  ASSERT_TRUE(Eventually([&] { return handler_.n_received() == 1; }));
  std::thread stop([this] { server_->Stop(10s); });
  EXPECT_THROW(idle->Receive(Clock::now() + 10s), NetError);
  handler_.Release();
  EXPECT_EQ(*waiting->Receive(Clock::now() + 10s).bytes, "released");
  EXPECT_THAT([&] { waiting->Receive(Clock::now() + 10s); },
              testing::ThrowsMessage<NetError>(HasSubstr("the server closed the connection")));
  EXPECT_TRUE(waiting->IsBroken());
  stop.join();
  EXPECT_THROW(ConnectWebSocket(url(), {}, Clock::now() + 1s), NetError);
}

TEST_F(WebSocket, StopsAlthoughOneIsNeverAnswered) {
  Start({});
  auto waiting = Connect();
  waiting->Send("hold", Clock::now() + 10s);
  ASSERT_TRUE(Eventually([&] { return handler_.n_received() == 1; }));
  server_->Stop(50ms);
  EXPECT_THROW(waiting->Receive(Clock::now() + 10s), NetError);
}

TEST_F(WebSocket, SaysThatAPortIsTaken) {
  Start({});
  const ServerOptions same{.port = server_->port()};
  EXPECT_THAT(MessageOf(ErrorCode::kIo, [&] { MakeWebSocketServer(same); }),
              testing::AllOf(HasSubstr("cannot listen on 127.0.0.1"), HasSubstr("--port")));
}

TEST_F(WebSocket, TimesOut) {
  Start({});
  auto client = Connect();
  client->Send("hold", Clock::now() + 10s);
  try {
    client->Receive(Clock::now() + 50ms);
    FAIL() << "there was an answer";
  } catch (const NetError& error) {
    EXPECT_EQ(error.fault(), NetFault::kTimeout);
  }
}

TEST(WebSocketAddress, MustBeOne) {
  for (const char* const url : {"http://127.0.0.1", "ws://", "127.0.0.1:8000", "ws://:80"}) {
    EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { ConnectWebSocket(url, {}, Clock::now() + 1s); }),
                HasSubstr("expected an address as ws://"));
  }
}

TEST(WebSocketAddress, OfNobodyIsDisconnected) {
  try {
    ConnectWebSocket("ws://127.0.0.1:1", {}, Clock::now() + 10s);
    FAIL() << "somebody was there";
  } catch (const NetError& error) {
    EXPECT_EQ(error.fault(), NetFault::kDisconnected);
    EXPECT_THAT(error.what(), HasSubstr("ws://127.0.0.1:1: Connection refused"));
  }
}

}  // namespace
}  // namespace dp_bench::net
