#include "wire/shown.h"

#include "core/console.h"
#include "core/utf8.h"

namespace dp_bench::wire {

std::string Shown(std::string_view text, std::size_t max_bytes) {
  std::size_t n = text.size();
  if (n > max_bytes) {
    n = max_bytes;
    while (n > 0 && (static_cast<unsigned char>(text[n]) & 0xc0) == 0x80) --n;
  }
  std::string shown(text.substr(0, n));
  if (!core::IsUtf8(shown)) {
    for (char& c : shown) {
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
    }
  }
  return core::Printable(shown) + (n < text.size() ? "..." : "");
}

}  // namespace dp_bench::wire
