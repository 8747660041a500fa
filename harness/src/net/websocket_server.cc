// One thread runs all connections, so nothing here is locked.
#include <concepts>
#include <deque>
#include <future>
#include <map>
#include <thread>
#include <utility>

#include "core/console.h"
#include "core/errors.h"
#include "net/beast.h"
#include "net/server.h"

namespace dp_bench::net {
namespace {

constexpr std::size_t kMaxHeaderBytes = 8192;

class WebSocketConnection;

class WebSocketServer final : public Server {
 public:
  explicit WebSocketServer(ServerOptions options);
  ~WebSocketServer() override { WebSocketServer::Stop(std::chrono::milliseconds(0)); }

  int port() const override { return port_; }
  void Start(Handler& handler) override;
  void Post(std::function<void()> work) override { asio::post(io_, std::move(work)); }
  void Send(ClientId client, Outgoing message) override;
  void Stop(std::chrono::milliseconds grace) override;

  // for the connections
  const ServerOptions& options() const { return options_; }
  Handler& handler() { return *handler_; }
  bool has_place() const {
    return !is_stopping_ && clients_.size() < static_cast<std::size_t>(options_.max_clients);
  }
  ClientId Admit(const std::shared_ptr<WebSocketConnection>& connection);
  void Forget(ClientId client);
  void CountSocket(int change);

 private:
  void Accept();
  void EndConnections();

  ServerOptions options_;
  Handler* handler_ = nullptr;
  int port_ = 0;
  ClientId last_client_ = 0;
  int n_sockets_ = 0;  // clients, and those that are not admitted yet
  bool is_stopping_ = false;
  std::promise<void> all_gone_;
  asio::io_context io_{1};  // what it holds when it is destroyed uses the members above
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  Tcp::acceptor acceptor_{io_};
  std::map<ClientId, std::shared_ptr<WebSocketConnection>> clients_;
  std::thread thread_;
};

// A socket from its acceptance to its end.
class WebSocketConnection : public std::enable_shared_from_this<WebSocketConnection> {
 public:
  WebSocketConnection(Tcp::socket socket, WebSocketServer& server)
      : server_(server),
        stream_(std::move(socket)),
        arrival_timer_(stream_.get_executor()),
        write_timer_(stream_.get_executor()) {
    server_.CountSocket(+1);
    parser_.header_limit(kMaxHeaderBytes);
  }
  WebSocketConnection(const WebSocketConnection&) = delete;
  WebSocketConnection& operator=(const WebSocketConnection&) = delete;
  ~WebSocketConnection() { server_.CountSocket(-1); }

  void ReadRequest();
  void Send(Outgoing message);
  // Ends it once nothing is to be answered.
  void EndWhenIdle();
  // Ends it at once.
  void Drop();
  void CloseSocket();

 private:
  void Answer();
  void AnswerPage(HttpAnswer page);
  std::optional<HttpAnswer> Refusal(bool is_upgrade) const;
  void AcceptClient();
  void Open();
  void Read();
  void Take(std::size_t n_new);
  void Deliver(std::string message);
  void WriteNext();
  void Close(websocket::close_code reason);
  void SetDeadline(asio::steady_timer* timer);
  template <class Work>
  auto Then(Work work);

  WebSocketServer& server_;
  websocket::stream<beast::tcp_stream> stream_;
  asio::steady_timer arrival_timer_;
  asio::steady_timer write_timer_;
  beast::flat_buffer head_;
  http::request_parser<http::empty_body> parser_;
  http::response<http::string_body> page_;
  ClientId id_ = 0;                  // 0: no client, or not any more
  beast::flat_buffer incoming_;      // keeps its memory: the next message is as long
  std::optional<std::string> held_;  // arrived before the last one was answered
  bool awaits_answer_ = false;
  bool is_reading_ = false;
  bool is_ending_ = false;
  std::deque<Outgoing> outgoing_;
};

// Runs `work` for a result without error; any error is the end of the connection.
template <class Work>
auto WebSocketConnection::Then(Work work) {
  return [ self = shared_from_this(), work ](
      error_code error, auto... result) requires std::invocable<const Work&, decltype(result)...> {
    if (error) {
      self->Drop();
    } else {
      work(result...);
    }
  };
}

void WebSocketConnection::ReadRequest() {
  beast::get_lowest_layer(stream_).expires_after(server_.options().transfer_time);
  http::async_read_header(stream_.next_layer(), head_, parser_,
                          Then([this](std::size_t) { Answer(); }));
}

std::optional<HttpAnswer> WebSocketConnection::Refusal(bool is_upgrade) const {
  const auto& request = parser_.get();
  const std::string& key = server_.options().api_key;
  if (is_upgrade && !server_.has_place()) {
    return HttpAnswer{.body = "the server is full: try again later\n", .status = 503};
  }
  if (request.find(http::field::origin) != request.end()) {
    return HttpAnswer{.body = "web pages are refused (Origin)\n", .status = 403};
  }
  const auto given = request[http::field::authorization];
  if (!key.empty() && !SameSecret("Api-Key " + key, {given.data(), given.size()})) {
    return HttpAnswer{.body = "expected the header Authorization: Api-Key <key>\n", .status = 401};
  }
  return std::nullopt;
}

void WebSocketConnection::Answer() {
  const auto& request = parser_.get();
  const bool is_upgrade = websocket::is_upgrade(request);
  const std::string path(request.target());
  const bool is_public = !is_upgrade && (path == "/health" || path == "/healthz");
  auto refusal = is_public ? std::nullopt : Refusal(is_upgrade);
  if (refusal) {
    AnswerPage(std::move(*refusal));
  } else if (is_upgrade) {
    AcceptClient();
  } else if (request.method() != http::verb::get) {
    AnswerPage({.body = "expected GET, or a WebSocket\n", .status = 405});
  } else {
    AnswerPage(server_.handler().Get(path).value_or(
        HttpAnswer{.body = "there is no such page\n", .status = 404}));
  }
}

void WebSocketConnection::AnswerPage(HttpAnswer page) {
  page_ = {static_cast<http::status>(page.status), parser_.get().version()};
  page_.set(http::field::content_type, page.content_type);
  page_.keep_alive(false);
  page_.body() = std::move(page.body);
  page_.prepare_payload();
  http::async_write(stream_.next_layer(), page_, Then([this](std::size_t) {
                      error_code ignored;
                      beast::get_lowest_layer(stream_).socket().shutdown(Tcp::socket::shutdown_send,
                                                                         ignored);
                    }));
}

void WebSocketConnection::AcceptClient() {
  beast::get_lowest_layer(stream_).expires_never();
  error_code ignored;
  beast::get_lowest_layer(stream_).socket().set_option(Tcp::no_delay(true), ignored);
  stream_.set_option(
      websocket::stream_base::timeout{.handshake_timeout = server_.options().transfer_time,
                                      .idle_timeout = server_.options().idle_time,
                                      .keep_alive_pings = true});
  stream_.read_message_max(server_.options().max_message_bytes);
  stream_.auto_fragment(false);
  stream_.async_accept(parser_.get(), Then([this] { Open(); }));
}

void WebSocketConnection::Open() {
  if (!server_.has_place()) {  // others were quicker, or the server stops
    stream_.async_close({websocket::close_code::try_again_later},
                        [self = shared_from_this()](error_code) {});
    return;
  }
  id_ = server_.Admit(shared_from_this());
  if (auto first = server_.handler().Opened(id_)) Send(std::move(*first));
  Read();
}

// Beast answers pings only during a read, so one is pending even while a request is processed.
void WebSocketConnection::Read() {
  if (is_reading_ || id_ == 0) return;
  is_reading_ = true;
  constexpr std::size_t kMaxRead = 1U << 20U;
  stream_.async_read_some(incoming_, kMaxRead, Then([this](std::size_t n) {
                            is_reading_ = false;
                            Take(n);
                          }));
}

void WebSocketConnection::Take(std::size_t n_new) {
  if (id_ == 0) return;
  if (!stream_.is_message_done()) {
    // the clock runs from the first byte
    if (incoming_.size() == n_new) SetDeadline(&arrival_timer_);
    Read();
    return;
  }
  arrival_timer_.cancel();
  if (stream_.got_text()) {
    Close(websocket::close_code::unknown_data);
    return;
  }
  std::string message = TakeAll(&incoming_);
  if (awaits_answer_) {
    held_ = std::move(message);  // and nothing more is read before it is delivered
  } else {
    Deliver(std::move(message));
    Read();
  }
}

void WebSocketConnection::Deliver(std::string message) {
  if (is_ending_) return;
  awaits_answer_ =
      server_.handler().Received(id_, std::make_shared<const std::string>(std::move(message)));
}

void WebSocketConnection::Send(Outgoing message) {
  if (id_ == 0) return;
  outgoing_.push_back(std::move(message));
  if (outgoing_.size() == 1) WriteNext();
}

void WebSocketConnection::WriteNext() {
  SetDeadline(&write_timer_);
  const Outgoing& message = outgoing_.front();
  stream_.text(message.is_text);
  stream_.async_write(asio::buffer(message.bytes), Then([this](std::size_t) {
                        write_timer_.cancel();
                        outgoing_.pop_front();
                        if (id_ == 0) return;
                        if (!outgoing_.empty()) {
                          WriteNext();
                          return;
                        }
                        awaits_answer_ = false;
                        if (is_ending_) {
                          Close(websocket::close_code::going_away);
                        } else if (held_) {
                          Deliver(*std::exchange(held_, std::nullopt));
                          Read();
                        }
                      }));
}

void WebSocketConnection::SetDeadline(asio::steady_timer* timer) {
  timer->expires_after(server_.options().transfer_time);
  timer->async_wait([weak = weak_from_this()](error_code error) {
    if (error) return;  // cancelled
    if (const auto self = weak.lock()) self->Drop();
  });
}

void WebSocketConnection::Close(websocket::close_code reason) {
  server_.Forget(std::exchange(id_, 0));
  stream_.async_close({reason}, [self = shared_from_this()](error_code) {});
}

void WebSocketConnection::EndWhenIdle() {
  is_ending_ = true;
  if (!awaits_answer_ && outgoing_.empty()) Close(websocket::close_code::going_away);
}

void WebSocketConnection::Drop() {
  arrival_timer_.cancel();
  write_timer_.cancel();
  CloseSocket();
  if (id_ != 0) server_.Forget(std::exchange(id_, 0));
}

void WebSocketConnection::CloseSocket() {
  error_code ignored;
  beast::get_lowest_layer(stream_).socket().close(ignored);
}

WebSocketServer::WebSocketServer(ServerOptions options) : options_(std::move(options)) {
  try {
    Tcp::resolver resolver(io_);
    const Tcp::endpoint where =
        *resolver.resolve(options_.host, std::to_string(options_.port), Tcp::resolver::passive);
    acceptor_.open(where.protocol());
    acceptor_.set_option(Tcp::acceptor::reuse_address(true));
    acceptor_.bind(where);
    acceptor_.listen();
    port_ = acceptor_.local_endpoint().port();
  } catch (const boost::system::system_error& error) {
    throw IoError("cannot listen on {}:{}: {}. Choose another --host or --port", options_.host,
                  options_.port, error.code().message());
  }
}

void WebSocketServer::Start(Handler& handler) {
  handler_ = &handler;
  Accept();
  thread_ = std::thread([this] { io_.run(); });
}

void WebSocketServer::Accept() {
  acceptor_.async_accept([this](error_code error, Tcp::socket socket) {
    if (error == asio::error::operation_aborted || is_stopping_) return;
    if (!error && n_sockets_ < 2 * options_.max_clients) {
      std::make_shared<WebSocketConnection>(std::move(socket), *this)->ReadRequest();
    }
    Accept();
  });
}

ClientId WebSocketServer::Admit(const std::shared_ptr<WebSocketConnection>& connection) {
  clients_.emplace(++last_client_, connection);
  return last_client_;
}

void WebSocketServer::Forget(ClientId client) {
  clients_.erase(client);
  handler_->Closed(client);
}

void WebSocketServer::CountSocket(int change) {
  n_sockets_ += change;
  if (is_stopping_ && n_sockets_ == 0) all_gone_.set_value();
}

void WebSocketServer::Send(ClientId client, Outgoing message) {
  const auto found = clients_.find(client);
  if (found != clients_.end()) found->second->Send(std::move(message));
}

void WebSocketServer::EndConnections() {
  is_stopping_ = true;
  acceptor_.close();
  if (n_sockets_ == 0) {
    all_gone_.set_value();
    return;
  }
  const auto clients = clients_;  // those that end change the list
  for (const auto& [id, client] : clients) client->EndWhenIdle();
}

void WebSocketServer::Stop(std::chrono::milliseconds grace) {
  if (!thread_.joinable()) return;
  std::future<void> gone = all_gone_.get_future();
  asio::post(io_, [this] { EndConnections(); });
  gone.wait_for(grace);
  io_.stop();
  thread_.join();
  for (const auto& [id, client] : clients_) client->CloseSocket();
}

}  // namespace

std::unique_ptr<Server> MakeWebSocketServer(const ServerOptions& options) {
  return std::make_unique<WebSocketServer>(options);
}

}  // namespace dp_bench::net
