// One thread owns the socket. Requests of REQ sockets come with an identity and an empty part.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "core/errors.h"
#include "net/server.h"

namespace dp_bench::net {
namespace {

using SteadyClock = std::chrono::steady_clock;

class ZmqServer final : public Server {
 public:
  explicit ZmqServer(ServerOptions options);
  ~ZmqServer() override {
    ZmqServer::Stop(std::chrono::milliseconds(0));
    close(wake_);
  }

  int port() const override { return port_; }
  void Start(Handler& handler) override;
  void Post(std::function<void()> work) override;
  void Send(ClientId client, Outgoing message) override;
  void Stop(std::chrono::milliseconds grace) override;

 private:
  struct Peer {
    std::string identity;
    SteadyClock::time_point last_seen;
    bool awaits_answer = false;
  };

  void Loop();
  void RunPosted();
  void ReceiveAll();
  void Take(std::vector<zmq::message_t> parts);
  ClientId ClientOf(const std::string& identity);
  void ForgetIdle();
  void Wake() const;

  ServerOptions options_;
  Handler* handler_ = nullptr;
  zmq::context_t context_{1};
  zmq::socket_t socket_{context_, zmq::socket_type::router};
  int port_ = 0;
  int wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::map<ClientId, Peer> peers_;
  std::map<std::string, ClientId> ids_;
  ClientId last_client_ = 0;
  std::optional<SteadyClock::time_point> end_;  // of the grace

  std::mutex mutex_;
  std::deque<std::function<void()>> posted_;
  std::thread thread_;
};

ZmqServer::ZmqServer(ServerOptions options) : options_(std::move(options)) {
  socket_.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(options_.max_message_bytes));
  socket_.set(zmq::sockopt::rcvhwm, 4);
  socket_.set(zmq::sockopt::sndhwm, 4);
  socket_.set(zmq::sockopt::linger, 0);
  const auto idle = static_cast<int>(options_.idle_time.count());
  socket_.set(zmq::sockopt::heartbeat_ivl, idle / 2);
  socket_.set(zmq::sockopt::heartbeat_timeout, idle);
  socket_.set(zmq::sockopt::handshake_ivl, static_cast<int>(options_.transfer_time.count()));
  const std::string where =
      "tcp://" + options_.host + ":" + (options_.port == 0 ? "*" : std::to_string(options_.port));
  try {
    socket_.bind(where);
  } catch (const zmq::error_t& error) {
    throw IoError("cannot listen on {}:{}: {}. Choose another --host or --port", options_.host,
                  options_.port, error.what());
  }
  const std::string bound = socket_.get(zmq::sockopt::last_endpoint);
  port_ = std::stoi(bound.substr(bound.rfind(':') + 1));
}

void ZmqServer::Start(Handler& handler) {
  handler_ = &handler;
  thread_ = std::thread([this] { Loop(); });
}

void ZmqServer::Wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = write(wake_, &one, sizeof one);
}

void ZmqServer::Post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(work));
  }
  Wake();
}

void ZmqServer::Loop() {
  while (true) {
    std::vector<zmq::pollitem_t> items = {{socket_.handle(), 0, ZMQ_POLLIN, 0},
                                          {nullptr, wake_, ZMQ_POLLIN, 0}};
    zmq::poll(items, std::chrono::milliseconds(end_ ? 10 : 1000));
    RunPosted();
    if (end_) {
      const bool is_busy =
          std::ranges::any_of(peers_, [](const auto& peer) { return peer.second.awaits_answer; });
      if (!is_busy || SteadyClock::now() >= *end_) return;
    } else {
      ReceiveAll();
      ForgetIdle();
    }
  }
}

void ZmqServer::RunPosted() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto n = read(wake_, &count, sizeof count);
  std::deque<std::function<void()>> posted;
  {
    const std::lock_guard lock(mutex_);
    posted.swap(posted_);
  }
  for (const auto& work : posted) work();
}

void ZmqServer::ReceiveAll() {
  constexpr int kMaxTurns = 64;  // then what was posted gets its turn
  constexpr std::size_t kMaxParts = 4;
  for (int turn = 0; turn < kMaxTurns; ++turn) {
    std::vector<zmq::message_t> parts;
    bool has_more = true;
    while (has_more) {
      zmq::message_t part;
      if (!socket_.recv(part, zmq::recv_flags::dontwait)) return;
      has_more = part.more();
      if (parts.size() < kMaxParts) parts.push_back(std::move(part));
    }
    Take(std::move(parts));
  }
}

ClientId ZmqServer::ClientOf(const std::string& identity) {
  const auto found = ids_.find(identity);
  if (found != ids_.end()) return found->second;
  if (peers_.size() >= static_cast<std::size_t>(options_.max_clients)) {
    // the one that was silent for the longest time makes place
    auto oldest = peers_.end();
    for (auto peer = peers_.begin(); peer != peers_.end(); ++peer) {
      if (peer->second.awaits_answer) continue;
      if (oldest == peers_.end() || peer->second.last_seen < oldest->second.last_seen) {
        oldest = peer;
      }
    }
    if (oldest == peers_.end()) return 0;
    ids_.erase(oldest->second.identity);
    handler_->Closed(oldest->first);
    peers_.erase(oldest);
  }
  const ClientId client = ++last_client_;
  ids_[identity] = client;
  peers_[client] = {.identity = identity, .last_seen = SteadyClock::now()};
  handler_->Opened(client);
  return client;
}

// A client with another request before its answer breaks the protocol: that request is dropped.
void ZmqServer::Take(std::vector<zmq::message_t> parts) {
  if (parts.size() != 3 || parts[1].size() != 0) return;
  const ClientId client = ClientOf(parts[0].to_string());
  if (client == 0 || peers_[client].awaits_answer) return;
  peers_[client].last_seen = SteadyClock::now();
  peers_[client].awaits_answer = true;
  const bool is_answered =
      handler_->Received(client, std::make_shared<const std::string>(parts[2].to_string()));
  if (!is_answered) peers_[client].awaits_answer = false;
}

void ZmqServer::Send(ClientId client, Outgoing message) {
  const auto peer = peers_.find(client);
  if (peer == peers_.end()) return;
  peer->second.awaits_answer = false;
  try {
    socket_.send(zmq::buffer(peer->second.identity), zmq::send_flags::sndmore);
    socket_.send(zmq::message_t(), zmq::send_flags::sndmore);
    socket_.send(zmq::buffer(message.bytes), zmq::send_flags::none);
  } catch (const zmq::error_t&) {  // it is gone
  }
}

void ZmqServer::ForgetIdle() {
  const auto limit = SteadyClock::now() - 10 * options_.idle_time;
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    if (peer->second.awaits_answer || peer->second.last_seen > limit) {
      ++peer;
      continue;
    }
    ids_.erase(peer->second.identity);
    handler_->Closed(peer->first);
    peer = peers_.erase(peer);
  }
}

void ZmqServer::Stop(std::chrono::milliseconds grace) {
  if (!thread_.joinable()) return;
  Post([this, grace] { end_ = SteadyClock::now() + grace; });
  thread_.join();
  socket_.close();
}

}  // namespace

std::unique_ptr<Server> MakeZmqServer(const ServerOptions& options) {
  return std::make_unique<ZmqServer>(options);
}

}  // namespace dp_bench::net
