// A page of a server on this machine.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

namespace dp_bench {

/// A socket that is connected to a port of this machine; the caller closes it. -1 if nobody
/// listens.
inline int ConnectSocket(int port) {
  const int raw = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(raw, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return raw;
  close(raw);
  return -1;
}

/// Sends `text` and returns what comes back until the server closes the connection.
inline std::string Speak(int port, const std::string& text) {
  const int raw = ConnectSocket(port);
  std::string answer;
  if (raw < 0) return answer;
  std::array<char, 4096> part{};
  ssize_t n = send(raw, text.data(), text.size(), MSG_NOSIGNAL);
  while (n > 0 && (n = recv(raw, part.data(), part.size(), 0)) > 0) {
    answer.append(part.data(), static_cast<std::size_t>(n));
  }
  close(raw);
  return answer;
}

/// The answer to a GET, with its head.
inline std::string HttpGet(int port, const std::string& path) {
  return Speak(port, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

}  // namespace dp_bench
