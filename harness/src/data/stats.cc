#include "data/stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "data/convert.h"
#include "dp_bench/error.h"

namespace dp_bench {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

// Calls visit(step, values of that step) for all steps of a key, in order.
template <class Visit>
void VisitSteps(const Dataset& dataset, int key, std::int64_t n_steps, const Visit& visit) {
  const KeySpec& spec = dataset.spec().keys[static_cast<std::size_t>(key)];
  const auto n_elements = static_cast<std::size_t>(spec.NumElements());
  const std::size_t block_steps = std::max<std::size_t>(1, kBlockBytes / spec.ByteSize());
  std::vector<std::byte> bytes(block_steps * spec.ByteSize());
  std::vector<double> values(block_steps * n_elements);

  for (std::int64_t begin = 0; begin < n_steps;) {
    const std::int64_t end = std::min(begin + static_cast<std::int64_t>(block_steps), n_steps);
    const auto n = static_cast<std::size_t>(end - begin);
    const std::span<std::byte> block(bytes.data(), n * spec.ByteSize());
    dataset.Read(key, begin, end, block);
    ConvertElements(spec.dtype, block, std::span(values.data(), n * n_elements));
    for (std::size_t i = 0; i < n; ++i) {
      visit(begin + static_cast<std::int64_t>(i),
            std::span<const double>(values.data() + i * n_elements, n_elements));
    }
    begin = end;
  }
}

}  // namespace

KeyStats ComputeStats(const Dataset& dataset, int key) {
  const KeySpec& spec = dataset.spec().keys.at(static_cast<std::size_t>(key));
  if (dataset.episode_ends().empty()) {
    throw Error(ErrorCode::kData,
                fmt::format("no statistics of '{}': the dataset has no steps", spec.name));
  }
  const std::int64_t n_steps = dataset.episode_ends().back();
  const auto n_elements = static_cast<std::size_t>(spec.NumElements());
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  KeyStats stats{.min = std::vector<double>(n_elements, kInfinity),
                 .max = std::vector<double>(n_elements, -kInfinity),
                 .mean = std::vector<double>(n_elements, 0.0),
                 .std = std::vector<double>(n_elements, 0.0),
                 .count = n_steps};

  // range and mean
  VisitSteps(dataset, key, n_steps, [&](std::int64_t step, std::span<const double> values) {
    for (std::size_t i = 0; i < n_elements; ++i) {
      if (!std::isfinite(values[i])) {
        throw Error(
            ErrorCode::kNumeric,
            fmt::format("'{}' holds {} at step {}, element {}; statistics need finite numbers",
                        spec.name, values[i], step, i));
      }
      stats.min[i] = std::min(stats.min[i], values[i]);
      stats.max[i] = std::max(stats.max[i], values[i]);
      stats.mean[i] += values[i];
    }
  });
  const auto count = static_cast<double>(n_steps);
  for (double& mean : stats.mean) mean /= count;

  // deviation from the mean that is known by now: no cancellation of large squares
  VisitSteps(dataset, key, n_steps, [&](std::int64_t, std::span<const double> values) {
    for (std::size_t i = 0; i < n_elements; ++i) {
      const double deviation = values[i] - stats.mean[i];
      stats.std[i] += deviation * deviation;
    }
  });
  for (double& std : stats.std) std = std::sqrt(std / count);
  return stats;
}

}  // namespace dp_bench
