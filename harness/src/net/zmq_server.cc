// One thread owns the socket. Requests of REQ sockets come with an identity and an empty part.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
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
  ZmqServer(ServerOptions options, std::string no_place)
      : options_(std::move(options)), no_place_(std::move(no_place)) {
    socket_.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(options_.max_message_bytes));
    socket_.set(zmq::sockopt::rcvhwm, 4);
    socket_.set(zmq::sockopt::sndhwm, 4);
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::router_mandatory, true);
    const auto idle = static_cast<int>(options_.idle_time.count());
    socket_.set(zmq::sockopt::heartbeat_ivl, idle / 2);
    socket_.set(zmq::sockopt::heartbeat_timeout, idle);
    socket_.set(zmq::sockopt::handshake_ivl, static_cast<int>(options_.transfer_time.count()));
    constexpr const char* kClosed = "inproc://closed";
    zmq_socket_monitor(socket_.handle(), kClosed, ZMQ_EVENT_DISCONNECTED);
    closed_.set(zmq::sockopt::rcvhwm, 0);
    closed_.connect(kClosed);
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

  ~ZmqServer() override {
    ZmqServer::Stop(std::chrono::milliseconds(0));
    close(wake_);
  }

  int port() const override { return port_; }

  void Start(Handler& handler) override {
    handler_ = &handler;
    thread_ = std::thread([this] { Loop(); });
  }

  void Post(std::function<void()> work) override {
    {
      const std::lock_guard lock(mutex_);
      posted_.push_back(std::move(work));
    }
    Wake();
  }

  void Send(ClientId client, Outgoing message) override {
    const auto peer = peers_.find(client);
    if (peer == peers_.end()) return;
    peer->second.awaits_answer = false;
    peer->second.is_gone = !Answer(peer->second.identity, message.bytes);
  }

  void Stop(std::chrono::milliseconds grace) override {
    if (!thread_.joinable()) return;
    Post([this, grace] { end_ = SteadyClock::now() + grace; });
    thread_.join();
    socket_.close();
  }

 private:
  struct Peer {
    std::string identity;
    int descriptor = -1;  // of its connection; -1: unknown
    bool awaits_answer = false;
    bool is_gone = false;
  };

  void Loop() {
    // ZeroMQ's functions fail when a signal comes; another thread handles it
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2})
      sigaddset(&signals, signal);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    while (true) {
      std::vector<zmq::pollitem_t> items = {{socket_.handle(), 0, ZMQ_POLLIN, 0},
                                            {closed_.handle(), 0, ZMQ_POLLIN, 0},
                                            {nullptr, wake_, ZMQ_POLLIN, 0}};
      zmq::poll(items, std::chrono::milliseconds(end_ ? 10 : 1000));
      RunPosted();
      ForgetGone();
      if (end_) {
        const bool is_busy =
            std::ranges::any_of(peers_, [](const auto& peer) { return peer.second.awaits_answer; });
        if (!is_busy || SteadyClock::now() >= *end_) return;
      } else {
        ReceiveAll();
      }
    }
  }

  void RunPosted() {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto n = read(wake_, &count, sizeof count);
    std::deque<std::function<void()>> posted;
    {
      const std::lock_guard lock(mutex_);
      posted.swap(posted_);
    }
    for (const auto& work : posted) work();
  }

  void ReceiveAll() {
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

  // A client with another request before its answer breaks the protocol: that request is dropped.
  void Take(std::vector<zmq::message_t> parts) {
    if (parts.size() != 3 || parts[1].size() != 0) return;
    ForgetGone();  // also the one that had this descriptor before
    const ClientId client = ClientOf(parts[0].to_string());
    if (client == 0) {
      Answer(parts[0].to_string(), no_place_);
      return;
    }
    if (peers_[client].awaits_answer) return;
    peers_[client].descriptor = zmq_msg_get(parts[2].handle(), ZMQ_SRCFD);
    peers_[client].awaits_answer = true;
    const bool is_answered =
        handler_->Received(client, std::make_shared<const std::string>(parts[2].to_string()));
    if (!is_answered) peers_[client].awaits_answer = false;
  }

  ClientId ClientOf(const std::string& identity) {
    const auto found = ids_.find(identity);
    if (found != ids_.end()) return found->second;
    if (peers_.size() >= static_cast<std::size_t>(options_.max_clients)) return 0;
    const ClientId client = ++last_client_;
    ids_[identity] = client;
    peers_[client].identity = identity;
    handler_->Opened(client);
    return client;
  }

  // False if it is not there, or does not take its answers.
  bool Answer(const std::string& identity, const std::string& bytes) {
    try {
      const auto flags = zmq::send_flags::sndmore | zmq::send_flags::dontwait;
      if (!socket_.send(zmq::buffer(identity), flags)) return false;
      socket_.send(zmq::message_t(), zmq::send_flags::sndmore);
      socket_.send(zmq::buffer(bytes), zmq::send_flags::none);
      return true;
    } catch (const zmq::error_t&) {
      return false;
    }
  }

  // An event is its number, 16 bits, and the descriptor, 32 bits; a part with the address follows.
  void ForgetGone() {
    zmq::message_t event;
    zmq::message_t address;
    while (closed_.recv(event, zmq::recv_flags::dontwait) && closed_.recv(address)) {
      std::int32_t descriptor = -1;
      std::memcpy(&descriptor, event.data<std::byte>() + sizeof(std::uint16_t), sizeof descriptor);
      for (auto& [client, peer] : peers_) peer.is_gone |= peer.descriptor == descriptor;
    }
    std::erase_if(peers_, [this](const auto& entry) {
      if (!entry.second.is_gone) return false;
      ids_.erase(entry.second.identity);
      handler_->Closed(entry.first);
      return true;
    });
  }

  void Wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = write(wake_, &one, sizeof one);
  }

  ServerOptions options_;
  std::string no_place_;
  Handler* handler_ = nullptr;
  zmq::context_t context_{1};
  zmq::socket_t socket_{context_, zmq::socket_type::router};
  zmq::socket_t closed_{context_, zmq::socket_type::pair};  // tells of connections that end
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

}  // namespace

std::unique_ptr<Server> MakeZmqServer(const ServerOptions& options, std::string no_place) {
  return std::make_unique<ZmqServer>(options, std::move(no_place));
}

}  // namespace dp_bench::net
