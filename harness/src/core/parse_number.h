// Numbers in text.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace dp_bench::core {

/// The whole text as a T; none if it is something else, or does not fit.
template <class T>
std::optional<T> ParseNumber(std::string_view text) {
  T value = {};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace dp_bench::core
