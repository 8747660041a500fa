// The names of Boost.Asio and Boost.Beast that this folder uses.
#pragma once

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <utility>  // before Boost 1.74, which forgets it

namespace dp_bench::net {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;
using boost::system::error_code;
using Tcp = asio::ip::tcp;

/// Appends what is read to a string.
using StringBuffer =
    asio::dynamic_string_buffer<char, std::char_traits<char>, std::allocator<char>>;

}  // namespace dp_bench::net
