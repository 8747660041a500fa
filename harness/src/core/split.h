// Lists in text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dp_bench::core {

/// The parts between the separators: "a,,b" is "a", "" and "b". An empty text is one empty part.
inline std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace dp_bench::core
