// The readers of clients' messages are linked without the servers that receive them.
#include <memory>

#include "net/server.h"

namespace dp_bench::net {

std::unique_ptr<Server> MakeWebSocketServer(const ServerOptions& /*options*/) { return nullptr; }
std::unique_ptr<Server> MakeZmqServer(const ServerOptions& /*options*/, std::string /*no_place*/) {
  return nullptr;
}

}  // namespace dp_bench::net
