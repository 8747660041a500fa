// Connections to servers of messages.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "net/server.h"

namespace dp_bench::net {

/// Why a message was not sent or did not come.
enum class NetFault {
  kTimeout,
  kDisconnected,  // the server closed the connection, or cannot be reached
};

/// Of a connection, which cannot be used any more.
class NetError : public std::runtime_error {
 public:
  NetError(NetFault fault, const std::string& message)
      : std::runtime_error(message), fault_(fault) {}
  NetFault fault() const { return fault_; }

 private:
  NetFault fault_;
};

struct Incoming {
  Bytes bytes;
  bool is_text = false;  // WebSocket: a text frame
};

inline constexpr std::size_t kMaxServerMessageBytes = 64U << 20U;

/// One connection, used by one thread. Pings are answered between calls too.
class Connection {
 public:
  using Clock = std::chrono::steady_clock;

  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  virtual ~Connection() = default;

  /// Sends a binary message. Throws NetError.
  virtual void Send(std::string message, Clock::time_point until) = 0;

  /// The next message of the server. Throws NetError.
  virtual Incoming Receive(Clock::time_point until) = 0;

  /// Whether it is known that the server has gone. False over ZeroMQ, which does not tell.
  virtual bool IsBroken() { return false; }

 protected:
  Connection() = default;
};

/// Connects to "ws://host[:port][/path]". `api_key`: "": none. Throws Error{kUsage} for another
/// url, and NetError.
std::unique_ptr<Connection> ConnectWebSocket(std::string_view url, const std::string& api_key,
                                             Connection::Clock::time_point until);

/// A REQ socket to "tcp://host:port". Connecting never fails: a server that is not there is a
/// timeout of the first answer. Throws Error{kUsage} for another url.
std::unique_ptr<Connection> ConnectZmq(const std::string& url);

}  // namespace dp_bench::net
