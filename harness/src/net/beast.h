// The names of Boost.Asio and Boost.Beast that this folder uses.
#pragma once

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <string>
#include <utility>  // before Boost 1.74, which forgets it

namespace dp_bench::net {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;
using boost::system::error_code;
using Tcp = asio::ip::tcp;

/// What was read, which the buffer gives up. (To read into a string would fill it with zeros first,
/// for each part that arrives.)
inline std::string TakeAll(beast::flat_buffer* buffer) {
  std::string bytes(static_cast<const char*>(buffer->data().data()), buffer->size());
  buffer->consume(buffer->size());
  return bytes;
}

}  // namespace dp_bench::net
