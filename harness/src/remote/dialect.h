// What a client says to policy servers, in the words of one protocol.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dp_bench/array.h"
#include "dp_bench/spec.h"
#include "net/client.h"
#include "remote/remote_client.h"
#include "serve/key_map.h"
#include "wire/message.h"
#include "wire/value.h"

namespace dp_bench::remote {

/// What came back: actions, or why there are none.
struct Reply {
  Shape shape;                 // [H, Da] or [Da]
  std::vector<float> actions;  // empty after a refusal
  std::string refusal;
  bool is_overloaded = false;  // the same question may be answered later
};

struct DialectOptions {
  PolicySpec spec;
  serve::KeyMap keys;
  std::string instruction;  // what to do, in words
};

class Dialect {
 public:
  explicit Dialect(DialectOptions options) : options_(std::move(options)) {}
  Dialect(const Dialect&) = delete;
  Dialect& operator=(const Dialect&) = delete;
  virtual ~Dialect() = default;

  virtual std::unique_ptr<net::Connection> Connect(const std::string& url,
                                                   const std::string& api_key,
                                                   net::Connection::Clock::time_point until) {
    return net::ConnectWebSocket(url, api_key, until);
  }

  /// The first words on a connection. Returns what the server says about itself; may be empty.
  /// Throws Error{kPlugin} if the server refuses, and Error{kData} for what is no greeting.
  virtual wire::Map Greet(net::Connection& connection,
                          net::Connection::Clock::time_point until) = 0;

  /// Whether the server remembers the episode of a connection, so that each episode needs its own.
  virtual bool is_stateful() const { return false; }

  /// What announces an episode; the server does not answer it.
  virtual std::optional<std::string> Begin(const Question& /*question*/) const {
    return std::nullopt;
  }

  virtual std::string Ask(const Question& question) const = 0;

  /// Throws Error{kData} for what is no answer.
  virtual Reply Read(const net::Incoming& answer) const = 0;

 protected:
  const DialectOptions& options() const { return options_; }

 private:
  DialectOptions options_;
};

/// What a server of dp_bench says about itself under `key`, if it is a T; null from other servers.
template <class T>
const T* OwnEntry(const wire::Map& metadata, std::string_view key) {
  const auto* const own = metadata.Find<wire::Map>("dp_bench");
  return own == nullptr ? nullptr : own->Find<T>(key);
}

/// `protocol`: a name that serve::MakeProtocol knows.
std::unique_ptr<Dialect> MakeDialect(std::string_view protocol, DialectOptions options);

/// Where its servers want to have observations, if nobody says otherwise.
serve::KeyMap DefaultKeys(std::string_view protocol, const PolicySpec& spec);

}  // namespace dp_bench::remote
