#include "control/chunk_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace dp_bench::control {

std::optional<std::string> NonFiniteAction(std::span<const float> chunk, std::int64_t action_dim) {
  const auto bad = std::ranges::find_if(chunk, [](float value) { return !std::isfinite(value); });
  if (bad == chunk.end()) return std::nullopt;
  const auto index = bad - chunk.begin();
  return fmt::format("non-finite action: dimension {} of chunk step {} is {}", index % action_dim,
                     index / action_dim, *bad);
}

}  // namespace dp_bench::control
