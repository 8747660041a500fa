
#include <algorithm>
#include <cerrno>
#include <zmq.hpp>

#include "core/errors.h"
#include "net/client.h"

namespace dp_bench::net {
namespace {

int MillisecondsUntil(Connection::Clock::time_point until) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(until - Connection::Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
}

class ZmqClient final : public Connection {
 public:
  explicit ZmqClient(const std::string& url) : url_(url) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::maxmsgsize, std::int64_t{kMaxServerMessageBytes});
    try {
      socket_.connect(url);
    } catch (const zmq::error_t& error) {
      throw UsageError("expected an address as tcp://127.0.0.1:5555, found '{}' ({})", url,
                       error.what());
    }
  }

  void Send(std::string message, Clock::time_point until) override {
    socket_.set(zmq::sockopt::sndtimeo, MillisecondsUntil(until));
    if (Try([&] { return socket_.send(zmq::buffer(message)).has_value(); })) return;
    throw NetError(NetFault::kTimeout, fmt::format("{}: no time was left to send", url_));
  }

  Incoming Receive(Clock::time_point until) override {
    zmq::message_t message;
    socket_.set(zmq::sockopt::rcvtimeo, MillisecondsUntil(until));
    if (Try([&] { return socket_.recv(message).has_value(); })) {
      return {.bytes = std::make_shared<const std::string>(message.to_string())};
    }
    throw NetError(NetFault::kTimeout,
                   fmt::format("{}: no time was left to receive an answer", url_));
  }

 private:
  template <class Call>
  bool Try(const Call& call) {
    while (true) {
      try {
        return call();
      } catch (const zmq::error_t& error) {
        if (error.num() == EINTR) continue;  // Ctrl-C; the answer still belongs to an episode
        throw NetError(NetFault::kDisconnected, fmt::format("{}: {}", url_, error.what()));
      }
    }
  }

  std::string url_;
  zmq::context_t context_{1};
  zmq::socket_t socket_{context_, zmq::socket_type::req};
};

}  // namespace

std::unique_ptr<Connection> ConnectZmq(const std::string& url) {
  return std::make_unique<ZmqClient>(url);
}

}  // namespace dp_bench::net
