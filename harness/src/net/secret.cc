#include "net/server.h"

namespace dp_bench::net {

bool SameSecret(std::string_view wanted, std::string_view found) {
  if (wanted.size() != found.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    difference |= static_cast<unsigned char>(wanted[i]) ^ static_cast<unsigned char>(found[i]);
  }
  return difference == 0;
}

}  // namespace dp_bench::net
