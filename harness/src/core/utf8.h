// Whether bytes are text: UTF-8 as in RFC 3629, without surrogates and overlong forms.
#pragma once

#include <cstddef>
#include <string_view>

namespace dp_bench::core {

inline bool IsUtf8(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  std::size_t i = 0;
  while (i < text.size()) {
    const unsigned first = byte(i++);
    if (first < 0x80) continue;
    if (first < 0xc2 || first > 0xf4) return false;
    const std::size_t n_more = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    if (text.size() - i < n_more) return false;
    // the range of the second byte excludes overlong forms, surrogates and numbers over 10FFFF
    const unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (byte(i) < low || byte(i) > high) return false;
    for (std::size_t k = 1; k < n_more; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return false;
    }
    i += n_more;
  }
  return true;
}

}  // namespace dp_bench::core
