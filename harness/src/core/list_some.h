// Lists in messages.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dp_bench::core {

/// "a, b and 3 more": the first `most` of the values. `more`: what the others are called.
template <class T>
std::string ListSome(const std::vector<T>& values, std::size_t most,
                     std::string_view more = "more") {
  const auto shown = std::span(values).first(std::min(values.size(), most));
  const std::string text = fmt::format("{}", fmt::join(shown, ", "));
  const std::size_t n_more = values.size() - shown.size();
  return n_more > 0 ? fmt::format("{} and {} {}", text, n_more, more) : text;
}

}  // namespace dp_bench::core
