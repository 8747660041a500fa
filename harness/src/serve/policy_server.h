// A policy behind a server: sessions, batches, and what operators want to know.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "net/server.h"
#include "serve/batcher.h"
#include "serve/protocol.h"
#include "serve/server_counts.h"
#include "serve/session.h"

namespace dp_bench::serve {

struct PolicyServerOptions {
  net::ServerOptions net;
  BatcherOptions batcher;
  std::string log;  // JSON lines are appended to this file; "": none
};

/// Answers clients until it is destroyed or stopped. One thread talks to all clients, another one
/// plans, so that a slow plan delays no greeting, ping or page.
class PolicyServer final : public net::Handler {
 public:
  /// Throws Error{kIo} if the address or the log cannot be used.
  PolicyServer(std::shared_ptr<control::ChunkPlanner> planner, PolicyInfo info,
               std::unique_ptr<Protocol> protocol, KeyMap keys, PolicyServerOptions options);
  PolicyServer(const PolicyServer&) = delete;
  PolicyServer& operator=(const PolicyServer&) = delete;
  ~PolicyServer() override;

  /// "ws://127.0.0.1:8000"
  std::string address() const;
  int port() const { return server_->port(); }

  /// From now on, plans are of this policy, which has the same spec and micro_batch. Sessions stay.
  void Replace(std::shared_ptr<control::ChunkPlanner> planner, PolicyInfo info);

  /// Lets no one in any more and answers what was asked, but for no longer than `grace`.
  void Stop(std::chrono::milliseconds grace);

  std::optional<net::Outgoing> Opened(net::ClientId client) override;
  bool Received(net::ClientId client, net::Bytes message) override;
  void Closed(net::ClientId client) override;
  std::optional<net::HttpAnswer> Get(std::string_view path) override;

 private:
  // The name of a session, and the row in requests of several.
  using SessionKey = std::pair<std::string, std::optional<std::size_t>>;

  struct Client {
    std::map<SessionKey, std::shared_ptr<Session>> sessions;
    std::uint64_t n_requests = 0;
    std::uint64_t n_refused = 0;
  };
  struct Pending;

  bool Handle(net::ClientId id, Client& client, const wire::Message& message,
              ClientRequest& request);
  bool Infer(net::ClientId id, Client& client, const wire::Message& message,
             ClientRequest& request);
  void RequireOneBatch(std::span<const Observations> observations) const;
  void ResetSessions(Client& client, const ClientRequest& request);
  std::shared_ptr<Session> SessionOf(Client& client, const SessionKey& key);
  void Finish(Pending& pending);
  void SendRefusal(net::ClientId id, const ClientRequest& request, Refusal why,
                   const std::string& text);
  void Send(net::ClientId id, net::Outgoing message);
  std::string OverloadText() const;

  PolicyInfo info_;
  std::unique_ptr<Protocol> protocol_;
  KeyMap keys_;
  PolicyServerOptions options_;
  wire::Map metadata_;
  ServerCounts counts_;
  ServerLog log_;
  std::map<net::ClientId, Client> clients_;
  std::size_t max_sessions_;             // of a client
  std::unique_ptr<net::Server> server_;  // its thread uses all of the above
  std::unique_ptr<Batcher> batcher_;     // its thread uses the server
};

}  // namespace dp_bench::serve
