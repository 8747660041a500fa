// The ZeroMQ server and client against each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <thread>
#include <vector>

#include "net/client.h"
#include "net/server.h"
#include "support/error_of.h"

namespace dp_bench::net {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

// Answers with the client's number and the message; "hold" only when `Release` is called.
class NumberHandler final : public Handler {
 public:
  std::optional<Outgoing> Opened(ClientId) override { return std::nullopt; }
  bool Received(ClientId client, Bytes message) override {
    if (*message == "hold") {
      held_ = client;
    } else {
      server_->Send(client, {.bytes = std::to_string(client) + *message});
    }
    return true;
  }
  void Closed(ClientId) override { ++n_closed_; }
  std::optional<HttpAnswer> Get(std::string_view) override { return std::nullopt; }

  void Release() {
    server_->Post([this] { server_->Send(held_, {.bytes = "released"}); });
  }

  Server* server_ = nullptr;
  std::atomic<ClientId> held_ = 0;
  std::atomic<int> n_closed_ = 0;
};

class ZeroMq : public testing::Test {
 protected:
  void Start(const ServerOptions& options = {}) {
    server_ = MakeZmqServer(options, "full");
    handler_.server_ = server_.get();
    server_->Start(handler_);
  }
  ~ZeroMq() override {
    if (server_ != nullptr) server_->Stop(0ms);
  }

  std::unique_ptr<Connection> Connect() {
    return ConnectZmq("tcp://127.0.0.1:" + std::to_string(server_->port()));
  }
  void AwaitClosed(int n) {
    while (handler_.n_closed_ < n) std::this_thread::sleep_for(1ms);
  }
  static Connection::Clock::time_point Soon() { return Connection::Clock::now() + 10s; }
  static std::string Ask(Connection& connection, const std::string& message) {
    connection.Send(message, Soon());
    return *connection.Receive(Soon()).bytes;
  }

  NumberHandler handler_;
  std::unique_ptr<Server> server_;
};

TEST_F(ZeroMq, KnowsItsClients) {
  Start();
  auto first = Connect();
  auto second = Connect();
  EXPECT_EQ(Ask(*first, "a"), "1a");
  EXPECT_EQ(Ask(*second, "b"), "2b");
  EXPECT_EQ(Ask(*first, std::string(1 << 20, 'x')).size(), (1U << 20) + 1);
}

TEST_F(ZeroMq, AnswersOthersWhileOneWaits) {
  Start();
  auto slow = Connect();
  auto quick = Connect();
  slow->Send("hold", Soon());
  while (handler_.held_ == 0) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(Ask(*quick, "a"), "2a");
  handler_.Release();
  EXPECT_EQ(*slow->Receive(Soon()).bytes, "released");
}

TEST_F(ZeroMq, TurnsAwayMoreClientsThanAllowed) {
  Start({.max_clients = 2});
  auto first = Connect();
  auto second = Connect();
  EXPECT_EQ(Ask(*first, "a"), "1a");
  EXPECT_EQ(Ask(*second, "a"), "2a");
  auto third = Connect();
  EXPECT_EQ(Ask(*third, "a"), "full");
  EXPECT_EQ(Ask(*first, "b"), "1b") << "another client took its place";
  second.reset();
  AwaitClosed(1);
  EXPECT_EQ(Ask(*third, "b"), "3b");
}

TEST_F(ZeroMq, ForgetsClientsThatLeave) {
  Start({.max_clients = 2});
  auto first = Connect();
  EXPECT_EQ(Ask(*first, "a"), "1a");
  for (int i = 2; i < 20; ++i) {
    EXPECT_EQ(Ask(*Connect(), "a"), std::to_string(i) + "a");
    AwaitClosed(i - 1);
  }
  EXPECT_EQ(Ask(*first, "b"), "1b");
}

TEST_F(ZeroMq, ForgetsAClientThatLeavesBeforeItsAnswer) {
  Start({.max_clients = 1});
  auto client = Connect();
  client->Send("hold", Soon());
  while (handler_.held_ == 0) std::this_thread::sleep_for(1ms);
  client.reset();
  AwaitClosed(1);
  handler_.Release();
  EXPECT_EQ(Ask(*Connect(), "a"), "2a");
}

TEST_F(ZeroMq, IsNotInterruptedBySignals) {
  std::signal(SIGHUP, [](int) {});
  Start();
  auto client = Connect();
  EXPECT_EQ(Ask(*client, "a"), "1a");
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // so that another thread would get it
  std::this_thread::sleep_for(20ms);              // until it waits
  kill(getpid(), SIGHUP);
  EXPECT_EQ(Ask(*client, "b"), "1b");
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  std::signal(SIGHUP, SIG_DFL);
}

TEST_F(ZeroMq, DropsALongerMessage) {
  Start({.max_message_bytes = 1000});
  auto client = Connect();
  client->Send(std::string(2000, 'x'), Soon());
  EXPECT_THROW(client->Receive(Connection::Clock::now() + 200ms), NetError);
  EXPECT_EQ(Ask(*Connect(), "a"), "1a");
}

TEST_F(ZeroMq, StopsAfterItsAnswers) {
  Start();
  auto client = Connect();
  client->Send("hold", Soon());
  while (handler_.held_ == 0) std::this_thread::sleep_for(1ms);
  std::thread stop([this] { server_->Stop(10s); });
  handler_.Release();
  EXPECT_EQ(*client->Receive(Soon()).bytes, "released");
  stop.join();
}

TEST_F(ZeroMq, SaysThatAPortIsTaken) {
  Start();
  const ServerOptions same{.port = server_->port()};
  EXPECT_THAT(MessageOf(ErrorCode::kIo, [&] { MakeZmqServer(same, ""); }), HasSubstr("--port"));
}

TEST(ZeroMqAddress, MustBeOne) {
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [] { ConnectZmq("ws://x"); }),
              HasSubstr("expected an address as tcp://"));
}

TEST(ZeroMqAddress, OfNobodyIsATimeout) {
  auto client = ConnectZmq("tcp://127.0.0.1:1");
  try {
    client->Send("a", Connection::Clock::now() + 50ms);
    client->Receive(Connection::Clock::now() + 50ms);
    FAIL() << "somebody was there";
  } catch (const NetError& error) {
    EXPECT_EQ(error.fault(), NetFault::kTimeout);
  }
}

}  // namespace
}  // namespace dp_bench::net
