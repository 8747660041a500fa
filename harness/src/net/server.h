// Servers of messages: many clients, each with one request at a time. What the messages mean is the
// handler's affair.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace dp_bench::net {

/// A connection of a server, or a client of a server without connections. Never used again.
using ClientId = std::uint64_t;

using Bytes = std::shared_ptr<const std::string>;

/// A message to a client.
struct Outgoing {
  std::string bytes;
  bool is_text = false;  // WebSocket: a text frame
};

/// What a GET is answered with.
struct HttpAnswer {
  std::string body;
  std::string content_type = "text/plain";
  int status = 200;
};

/// The other half of a server. All calls come from the server's thread and must return soon.
class Handler {
 public:
  virtual ~Handler() = default;

  /// The message that a new client gets before it sends one.
  virtual std::optional<Outgoing> Opened(ClientId client) = 0;

  /// A whole message. Returns whether Server::Send will answer it: until then, the client's next
  /// message waits.
  virtual bool Received(ClientId client, Bytes message) = 0;

  /// The last call for this client. Answers to it are dropped from now on.
  virtual void Closed(ClientId client) = 0;

  /// A GET of plain HTTP; nothing: there is no such page.
  virtual std::optional<HttpAnswer> Get(std::string_view path) = 0;
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;                                // 0: one that is free
  std::size_t max_message_bytes = 64U << 20U;  // of clients; longer ones end the connection
  int max_clients = 64;                        // more are turned away
  std::string api_key;                         // "": none. Header "Authorization: Api-Key <key>"
  /// A message must arrive, and an answer must be taken, within this time.
  std::chrono::milliseconds transfer_time{10000};
  /// A client that does not even answer a ping for this long is gone.
  std::chrono::milliseconds idle_time{60000};
};

class Server {
 public:
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  virtual ~Server() = default;

  virtual int port() const = 0;

  /// Lets clients in. `handler` must outlive the server's thread (Stop).
  virtual void Start(Handler& handler) = 0;

  /// Runs `work` on the server's thread. From any thread.
  virtual void Post(std::function<void()> work) = 0;

  /// On the server's thread. Does nothing if the client is gone.
  virtual void Send(ClientId client, Outgoing message) = 0;

  /// Lets no one in any more, waits until requests are answered, but no longer than `grace`, and
  /// ends the connections. The handler is not called afterwards. From another thread than the
  /// server's; also called by the destructor of every server.
  virtual void Stop(std::chrono::milliseconds grace) = 0;

 protected:
  Server() = default;
};

/// WebSocket (RFC 6455) without compression, and GET of HTTP/1.1, on one port. Binary messages
/// only. Requests with an Origin are refused: a web page must not reach a policy. Pages need the
/// key too, except /health and /healthz. Listens at once; throws Error{kIo} if the address cannot
/// be used.
std::unique_ptr<Server> MakeWebSocketServer(const ServerOptions& options);

/// ZeroMQ for REQ sockets: a ROUTER over TCP. No greeting, no pages, no key: the handler asks for
/// one. `no_place` is the answer to a client too many. For trusted networks only: ZeroMQ itself
/// accepts any number of connections, and keeps the parts of a message, each of max_message_bytes,
/// until the last one comes, however long that takes. Throws Error{kIo}.
std::unique_ptr<Server> MakeZmqServer(const ServerOptions& options, std::string no_place);

/// Whether both are equal; the time does not tell how many characters of a guess were right.
bool SameSecret(std::string_view wanted, std::string_view found);

}  // namespace dp_bench::net
