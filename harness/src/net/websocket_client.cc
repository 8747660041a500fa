// A thread per connection reads all the time, and so answers pings.
#include <fmt/format.h>

#include <concepts>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "core/errors.h"
#include "net/beast.h"
#include "net/client.h"

namespace dp_bench::net {
namespace {

struct WebSocketUrl {
  std::string host;
  std::string port = "80";
  std::string path = "/";
};

WebSocketUrl ParseUrl(std::string_view url) {
  constexpr std::string_view kScheme = "ws://";
  const auto refuse = [&] {
    throw UsageError("expected an address as ws://127.0.0.1:8000, found '{}'", url);
  };
  if (!url.starts_with(kScheme)) refuse();
  std::string_view rest = url.substr(kScheme.size());
  WebSocketUrl parsed;
  if (const std::size_t slash = rest.find('/'); slash != std::string_view::npos) {
    parsed.path = rest.substr(slash);
    rest = rest.substr(0, slash);
  }
  const std::size_t bracket = rest.rfind(']');  // of [::1]
  const std::size_t colon = rest.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    parsed.port = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
  }
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  parsed.host = rest;
  if (parsed.host.empty() || parsed.port.empty()) refuse();
  return parsed;
}

class WebSocketClient final : public Connection {
 private:
  template <class Work>
  auto Then(Work work) {
    return
        [ this, work ](error_code error,
                       auto... result) requires std::invocable<const Work&, decltype(result)...> {
      if (error) {
        Break(Explain(error));
      } else {
        work(result...);
      }
    };
  }

 public:
  WebSocketClient(std::string_view url, std::string api_key, Clock::time_point until)
      : name_(url), url_(ParseUrl(url)), api_key_(std::move(api_key)) {
    asio::post(io_, [this] { Connect(); });
    thread_ = std::thread([this] { io_.run(); });
    try {
      std::unique_lock lock(mutex_);
      WaitFor(lock, until, "to connect", [this] { return is_open_; });
    } catch (...) {
      io_.stop();
      thread_.join();
      throw;
    }
  }

  ~WebSocketClient() override;

  void Send(std::string message, Clock::time_point until) override {
    {
      const std::lock_guard lock(mutex_);
      outgoing_ = std::move(message);
      is_written_ = false;
    }
    asio::post(io_, [this] {
      stream_.async_write(asio::buffer(outgoing_), Then([this](std::size_t) {
                            {
                              const std::lock_guard lock(mutex_);
                              is_written_ = true;
                            }
                            changed_.notify_all();
                          }));
    });
    std::unique_lock lock(mutex_);
    WaitFor(lock, until, "to send", [this] { return is_written_; });
  }

  Incoming Receive(Clock::time_point until) override {
    std::unique_lock lock(mutex_);
    WaitFor(lock, until, "to receive an answer", [this] { return !received_.empty(); });
    Incoming message = std::move(received_.front());
    received_.pop_front();
    return message;
  }

  bool IsBroken() override {
    const std::lock_guard lock(mutex_);
    return fault_.has_value();
  }

 private:
  void Connect() {
    resolver_.async_resolve(url_.host, url_.port,
                            Then([this](const Tcp::resolver::results_type& addresses) {
                              beast::get_lowest_layer(stream_).async_connect(
                                  addresses, Then([this](const Tcp::endpoint&) { Shake(); }));
                            }));
  }

  void Shake() {
    beast::get_lowest_layer(stream_).socket().set_option(Tcp::no_delay(true));
    stream_.read_message_max(kMaxServerMessageBytes);
    stream_.auto_fragment(false);
    stream_.binary(true);
    // a client masks what it sends, in parts of this size
    stream_.write_buffer_bytes(std::size_t{256} << 10);
    if (!api_key_.empty()) {
      stream_.set_option(
          websocket::stream_base::decorator([key = api_key_](websocket::request_type& request) {
            request.set(http::field::authorization, "Api-Key " + key);
          }));
    }
    stream_.async_handshake(response_, url_.host + ":" + url_.port, url_.path, Then([this] {
                              {
                                const std::lock_guard lock(mutex_);
                                is_open_ = true;
                              }
                              changed_.notify_all();
                              Read();
                            }));
  }

  void Read() {
    stream_.async_read(
        incoming_, Then([this](std::size_t) {
          {
            const std::lock_guard lock(mutex_);
            received_.push_back(
                {std::make_shared<const std::string>(TakeAll(&incoming_)), stream_.got_text()});
          }
          changed_.notify_all();
          Read();
        }));
  }

  // After the close frame of the server, other errors may come first.
  std::string Explain(error_code error) const {
    if (error == websocket::error::upgrade_declined) {
      const auto reason = response_.reason();
      return fmt::format("the server answered with HTTP {} {}, expected a WebSocket",
                         response_.result_int(), std::string_view(reason.data(), reason.size()));
    }
    const websocket::close_reason& close = stream_.reason();
    if (error != websocket::error::closed && close.code == websocket::close_code::none) {
      return error.message();
    }
    const std::string_view reason(close.reason.data(), close.reason.size());
    return fmt::format("the server closed the connection{}{}", reason.empty() ? "" : ": ", reason);
  }

  void Break(const std::string& why) {
    {
      const std::lock_guard lock(mutex_);
      if (!fault_) fault_ = why;
    }
    changed_.notify_all();
  }

  template <class Done>
  void WaitFor(std::unique_lock<std::mutex>& lock, Clock::time_point until, const std::string& what,
               const Done& done) {
    const bool has_come =
        changed_.wait_until(lock, until, [&] { return done() || fault_.has_value(); });
    if (done()) return;
    if (!has_come) {
      throw NetError(NetFault::kTimeout, fmt::format("{}: no time was left {}", name_, what));
    }
    throw NetError(NetFault::kDisconnected, fmt::format("{}: {}", name_, *fault_));
  }

  std::string name_;  // the url, for messages
  WebSocketUrl url_;
  std::string api_key_;
  asio::io_context io_{1};
  Tcp::resolver resolver_{io_};
  websocket::stream<beast::tcp_stream> stream_{io_};
  websocket::response_type response_;  // to the handshake
  beast::flat_buffer incoming_;
  std::string outgoing_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
  bool is_written_ = true;
  std::optional<std::string> fault_;
  std::deque<Incoming> received_;

  std::thread thread_;  // last: it uses the members above
};

WebSocketClient::~WebSocketClient() {
  constexpr std::chrono::milliseconds kFarewell{200};
  asio::post(io_,
             [this] { stream_.async_close(websocket::close_code::normal, [](error_code) {}); });
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kFarewell, [this] { return fault_.has_value(); });
  }
  io_.stop();
  thread_.join();
}

}  // namespace

std::unique_ptr<Connection> ConnectWebSocket(std::string_view url, const std::string& api_key,
                                             Connection::Clock::time_point until) {
  return std::make_unique<WebSocketClient>(url, api_key, until);
}

}  // namespace dp_bench::net
