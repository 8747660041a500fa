// A copy of bytes that is a memmove. With GCC 12, std::ranges::copy of a span copies them one by
// one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "dp_bench/error.h"

namespace dp_bench::core {

/// `to` may be larger.
inline void CopyBytes(std::span<const std::byte> from, std::span<std::byte> to) {
  DPB_ASSERT(from.size() <= to.size());
  std::copy(from.begin(), from.end(), to.begin());
}

}  // namespace dp_bench::core
