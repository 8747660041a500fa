#include "data/stats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <future>
#include <limits>
#include <span>
#include <vector>

#include "core/errors.h"
#include "core/thread_pool.h"
#include "data/loader.h"

namespace dp_bench::data {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

// Calls use(first step, bytes) for steps [begin, end) of a key, block by block.
template <class Use>
void ReadBlocks(const Dataset& dataset, int key, std::int64_t begin, std::int64_t end,
                const Use& use) {
  const std::size_t step_bytes = dataset.spec().keys[static_cast<std::size_t>(key)].ByteSize();
  const std::size_t block_steps = std::max<std::size_t>(1, kBlockBytes / step_bytes);
  std::vector<std::byte> bytes(block_steps * step_bytes);
  while (begin < end) {
    const std::int64_t next = std::min(begin + static_cast<std::int64_t>(block_steps), end);
    const auto block = std::span(bytes).first(static_cast<std::size_t>(next - begin) * step_bytes);
    dataset.Read(key, begin, next, block);
    use(begin, block);
    begin = next;
  }
}

// Calls visit(step, values of that step) for steps [begin, end) of a key, in order.
template <class Visit>
void VisitSteps(const Dataset& dataset, int key, std::int64_t begin, std::int64_t end,
                const Visit& visit) {
  const KeySpec& spec = dataset.spec().keys[static_cast<std::size_t>(key)];
  const auto n_elements = static_cast<std::size_t>(spec.NumElements());
  std::vector<double> values;
  ReadBlocks(dataset, key, begin, end, [&](std::int64_t step, std::span<const std::byte> block) {
    values.resize(block.size() / SizeOf(spec.dtype));
    ConvertElements(spec.dtype, block, std::span(values));
    for (std::size_t i = 0; i < values.size(); i += n_elements) {
      visit(step++, std::span<const double>(values).subspan(i, n_elements));
    }
  });
}

[[noreturn]] void FailNotFinite(const Dataset& dataset, int key, std::int64_t step,
                                std::size_t element, double value) {
  const std::span<const std::int64_t> ends = dataset.episode_ends();
  const auto end = std::ranges::upper_bound(ends, step);
  const std::int64_t begin = end == ends.begin() ? 0 : *std::prev(end);
  throw NumericError(
      "'{}' holds {} at step {}, element {} (step {} of episode {}); expected finite numbers that "
      "fit float32. Correct it, or leave the episode out (dp_bench dataset trim --episodes)",
      dataset.spec().keys[static_cast<std::size_t>(key)].name, value, step, element, step - begin,
      end - ends.begin());
}

// How often each value occurs, in one channel and in all.
using ValueCounts = std::array<std::int64_t, 256>;
using Histogram = std::vector<ValueCounts>;

// Counts steps [begin, end) of an image key, channel by channel.
void CountValues(const Dataset& dataset, int key, std::int64_t begin, std::int64_t end,
                 Histogram* histogram) {
  const std::size_t n_channels = histogram->size();
  ReadBlocks(dataset, key, begin, end, [&](std::int64_t, std::span<const std::byte> block) {
    for (std::size_t i = 0; i < block.size(); i += n_channels) {
      for (std::size_t c = 0; c < n_channels; ++c) {
        ++(*histogram)[c][std::to_integer<std::size_t>(block[i + c])];
      }
    }
  });
}

// Counts all steps on all cores.
Histogram CountValues(const Dataset& dataset, int key, std::int64_t n_channels) {
  const std::int64_t n_steps = dataset.episode_ends().back();
  const auto n_threads = std::min<std::int64_t>(core::ResolveThreadCount(0), n_steps);
  core::ThreadPool pool(static_cast<int>(n_threads));
  std::vector<std::future<Histogram>> parts;
  for (std::int64_t i = 0; i < n_threads; ++i) {
    parts.push_back(core::RunOn(pool, [&, i] {
      Histogram part(static_cast<std::size_t>(n_channels));
      CountValues(dataset, key, i * n_steps / n_threads, (i + 1) * n_steps / n_threads, &part);
      return part;
    }));
  }
  Histogram all(static_cast<std::size_t>(n_channels));
  for (std::future<Histogram>& future : parts) {
    const Histogram part = future.get();
    for (std::size_t c = 0; c < all.size(); ++c) {
      std::ranges::transform(all[c], part[c], all[c].begin(), std::plus());
    }
  }
  return all;
}

// Statistics of one channel as values in [0, 1].
void AppendChannel(const ValueCounts& counts, KeyStats* stats) {
  constexpr double kFull = 255.0;
  double n = 0.0;
  double sum = 0.0;
  double lowest = kFull;
  double highest = 0.0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const auto value = static_cast<double>(i);
    n += static_cast<double>(counts[i]);
    sum += static_cast<double>(counts[i]) * value;
    lowest = std::min(lowest, value);
    highest = value;
  }
  const double mean = sum / n;
  double squares = 0.0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double deviation = static_cast<double>(i) - mean;
    squares += static_cast<double>(counts[i]) * deviation * deviation;
  }
  stats->min.push_back(lowest / kFull);
  stats->max.push_back(highest / kFull);
  stats->mean.push_back(mean / kFull);
  stats->std.push_back(std::sqrt(squares / n) / kFull);
}

}  // namespace

KeyStats ComputeChannelStats(const Dataset& dataset, int key) {
  const KeySpec& spec = dataset.spec().keys.at(static_cast<std::size_t>(key));
  if (spec.type != KeyType::kRgb || spec.dtype != DType::kUInt8 || dataset.episode_ends().empty()) {
    throw DataError(
        "no channel statistics of '{}': expected uint8 images, found {} {} of {} episodes",
        spec.name, Name(spec.type), Name(spec.dtype), dataset.episode_ends().size());
  }
  KeyStats stats;
  stats.count = dataset.episode_ends().back();
  for (const ValueCounts& counts : CountValues(dataset, key, spec.shape[0])) {
    AppendChannel(counts, &stats);
  }
  return stats;
}

void RequireFinite(const Dataset& dataset, int key, std::int64_t begin, std::int64_t end) {
  VisitSteps(dataset, key, begin, end, [&](std::int64_t step, std::span<const double> values) {
    const auto fault = std::ranges::find_if_not(values, [](double v) { return std::isfinite(v); });
    if (fault == values.end()) return;
    const auto element = static_cast<std::size_t>(fault - values.begin());
    FailNotFinite(dataset, key, step, element, *fault);
  });
}

KeyStats ComputeStats(const Dataset& dataset, int key) {
  const KeySpec& spec = dataset.spec().keys.at(static_cast<std::size_t>(key));
  if (dataset.episode_ends().empty()) {
    throw DataError("no statistics of '{}': the dataset has no steps", spec.name);
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
  VisitSteps(dataset, key, 0, n_steps, [&](std::int64_t step, std::span<const double> values) {
    for (std::size_t i = 0; i < n_elements; ++i) {
      if (!std::isfinite(values[i])) FailNotFinite(dataset, key, step, i, values[i]);
      stats.min[i] = std::min(stats.min[i], values[i]);
      stats.max[i] = std::max(stats.max[i], values[i]);
      stats.mean[i] += values[i];
    }
  });
  const auto count = static_cast<double>(n_steps);
  for (double& mean : stats.mean) mean /= count;

  // the mean is known now: deviations from it avoid the cancellation of large squares
  VisitSteps(dataset, key, 0, n_steps, [&](std::int64_t, std::span<const double> values) {
    for (std::size_t i = 0; i < n_elements; ++i) {
      const double deviation = values[i] - stats.mean[i];
      stats.std[i] += deviation * deviation;
    }
  });
  for (double& std : stats.std) std = std::sqrt(std / count);
  return stats;
}

}  // namespace dp_bench::data
