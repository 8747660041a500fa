#include "data/epoch_order.h"

#include <fmt/format.h>

#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "dp_bench/error.h"
#include "dp_bench/random.h"

namespace dp_bench {

std::vector<std::int64_t> EpochOrder(std::uint64_t seed, std::uint64_t epoch, std::int64_t n) {
  if (n < 0 || n > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorCode::kData, fmt::format("cannot shuffle {} sequences", n));
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});

  // Fisher-Yates over the epoch's own stream
  RandomStream stream(seed, StreamId::kShuffle, epoch);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[stream.UniformInt(static_cast<std::uint32_t>(i))]);
  }
  return order;
}

}  // namespace dp_bench
