// Numbers as bytes, the lowest first, as TFRecord and protocol buffers store them.
#pragma once

#include <concepts>
#include <string>

namespace dp_bench {

template <std::unsigned_integral T>
void AppendLittleEndian(T value, std::string* out) {
  for (unsigned shift = 0; shift < 8 * sizeof(T); shift += 8) {
    *out += static_cast<char>(value >> shift);
  }
}

}  // namespace dp_bench
