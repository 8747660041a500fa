#include "data/lerobot/statistics.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/json.h"
#include "dp_bench/error.h"

namespace dp_bench::lerobot {
namespace {

using nlohmann::json;

constexpr std::size_t kBins = 5000;
constexpr double kRangePadding = 1e-10;  // of the histogram, at both ends

constexpr std::int64_t kMinSample = 100;  // pictures
constexpr std::int64_t kMaxSample = 10'000;
constexpr double kSamplePower = 0.75;
constexpr int kLargePicture = 300;  // [px]
constexpr int kReducedSide = 150;   // [px]

// A value and how often it occurs.
struct Level {
  double value;
  double count;
};

// The values of one channel; of equal values there may be several.
class Histogram {
 public:
  Histogram(double min, double max)
      : begin_(min - kRangePadding), end_(max + kRangePadding), counts_(kBins) {}

  void Add(const Level& level) {
    const double place =
        end_ > begin_ ? (level.value - begin_) / (end_ - begin_) * static_cast<double>(kBins) : 0.0;
    counts_[std::min(static_cast<std::size_t>(std::max(place, 0.0)), kBins - 1)] += level.count;
  }

  // Interpolates within the bin that the quantile falls into.
  double Quantile(double quantile, double n) const {
    const double target = quantile * n;
    double before = 0.0;
    for (std::size_t bin = 0; bin < kBins; ++bin) {
      if (before + counts_[bin] >= target) {
        if (bin == 0 || counts_[bin] == 0.0) return Edge(bin);
        const double fraction = (target - before) / counts_[bin];
        return Edge(bin) + fraction * (Edge(bin + 1) - Edge(bin));
      }
      before += counts_[bin];
    }
    return end_;
  }

 private:
  double Edge(std::size_t bin) const {
    return begin_ + (end_ - begin_) * static_cast<double>(bin) / static_cast<double>(kBins);
  }

  double begin_;
  double end_;
  std::vector<double> counts_;
};

void AppendChannel(std::span<const Level> levels, FeatureStatistics* statistics) {
  double n = 0.0;
  double sum = 0.0;
  double min = levels[0].value;
  double max = min;
  for (const Level& level : levels) {
    n += level.count;
    sum += level.count * level.value;
    min = std::min(min, level.value);
    max = std::max(max, level.value);
  }
  const double mean = sum / n;
  double squares = 0.0;
  Histogram histogram(min, max);
  for (const Level& level : levels) {
    squares += level.count * (level.value - mean) * (level.value - mean);
    histogram.Add(level);
  }
  statistics->min.push_back(min);
  statistics->max.push_back(max);
  statistics->mean.push_back(mean);
  statistics->std.push_back(std::sqrt(squares / n));
  for (std::size_t i = 0; i < kQuantiles.size(); ++i) {
    // a single number has no histogram
    statistics->quantiles[i].push_back(n < 2.0 ? mean : histogram.Quantile(kQuantiles[i], n));
  }
}

// Which of n pictures LeRobot looks at.
std::vector<std::int64_t> SampleOf(std::int64_t n) {
  const auto wanted = static_cast<std::int64_t>(std::pow(static_cast<double>(n), kSamplePower));
  const std::int64_t size = std::max(std::min(kMinSample, n), std::min(wanted, kMaxSample));
  std::vector<std::int64_t> frames{0};
  for (std::int64_t i = 1; i < size; ++i) {
    const double place =
        static_cast<double>(i) * static_cast<double>(n - 1) / static_cast<double>(size - 1);
    frames.push_back(static_cast<std::int64_t>(std::nearbyint(place)));
  }
  return frames;
}

json Shaped(const std::vector<double>& values, bool is_picture) {
  if (!is_picture) return values;
  json result = json::array();
  for (const double value : values) result.push_back({{value}});
  return result;
}

}  // namespace

std::vector<std::string> StatisticNames() {
  std::vector<std::string> names = {"min", "max", "mean", "std"};
  names.insert(names.end(), kQuantileNames.begin(), kQuantileNames.end());
  return names;
}

const std::vector<double>& StatisticOf(const FeatureStatistics& statistics, std::size_t index) {
  const std::array lists = {&statistics.min, &statistics.max, &statistics.mean, &statistics.std};
  return index < lists.size() ? *lists[index] : statistics.quantiles[index - lists.size()];
}

std::vector<double>& StatisticOf(FeatureStatistics& statistics, std::size_t index) {
  const std::array lists = {&statistics.min, &statistics.max, &statistics.mean, &statistics.std};
  return index < lists.size() ? *lists[index] : statistics.quantiles[index - lists.size()];
}

FeatureStatistics SummarizeNumbers(std::span<const double> values, std::size_t n_channels) {
  DPB_ASSERT(!values.empty() && values.size() % n_channels == 0);
  const std::size_t n = values.size() / n_channels;
  FeatureStatistics statistics{.count = static_cast<std::int64_t>(n)};
  std::vector<Level> levels;
  levels.reserve(n);
  for (std::size_t channel = 0; channel < n_channels; ++channel) {
    levels.clear();
    for (std::size_t i = channel; i < values.size(); i += n_channels) {
      if (std::isfinite(values[i])) levels.push_back({values[i], 1.0});
    }
    if (levels.empty()) levels.push_back({0.0, 1.0});
    AppendChannel(levels, &statistics);
  }
  return statistics;
}

PictureSummary::PictureSummary(const Shape& shape)
    : shape_(shape),
      frames_(SampleOf(shape.n_frames)),
      counts_(static_cast<std::size_t>(shape.n_channels),
              std::vector<std::uint64_t>(shape.n_levels)) {
  const int larger = std::max(shape.width, shape.height);
  if (larger >= kLargePicture) stride_ = static_cast<std::size_t>(larger / kReducedSide);
}

template <class T>
void PictureSummary::Add(std::span<const T> pixels) {
  const auto width = static_cast<std::size_t>(shape_.width);
  const auto height = static_cast<std::size_t>(shape_.height);
  const std::size_t n_channels = counts_.size();
  DPB_ASSERT(pixels.size() == width * height * n_channels);
  const std::int64_t frame = n_seen_++;
  if (next_ == frames_.size() || frames_[next_] != frame) return;
  ++next_;
  for (std::size_t y = 0; y < height; y += stride_) {
    for (std::size_t x = 0; x < width; x += stride_) {
      const T* const pixel = pixels.data() + (y * width + x) * n_channels;
      for (std::size_t c = 0; c < n_channels; ++c) ++counts_[c][pixel[c]];
    }
  }
}

template void PictureSummary::Add(std::span<const std::uint8_t>);
template void PictureSummary::Add(std::span<const std::uint16_t>);

FeatureStatistics PictureSummary::Finish() const {
  DPB_ASSERT(next_ == frames_.size());
  FeatureStatistics statistics{.count = static_cast<std::int64_t>(frames_.size())};
  for (const std::vector<std::uint64_t>& counts : counts_) {
    std::vector<Level> levels;
    for (std::size_t level = 0; level < counts.size(); ++level) {
      if (counts[level] == 0) continue;
      levels.push_back({static_cast<double>(level), static_cast<double>(counts[level])});
    }
    AppendChannel(levels, &statistics);
  }
  const auto scale = [this](std::vector<double>* values) {
    for (double& value : *values) value /= shape_.scale;
  };
  for (auto* const values : {&statistics.min, &statistics.max, &statistics.mean, &statistics.std}) {
    scale(values);
  }
  for (std::vector<double>& values : statistics.quantiles) scale(&values);
  return statistics;
}

FeatureStatistics Pool(std::span<const FeatureStatistics> episodes) {
  DPB_ASSERT(!episodes.empty());
  FeatureStatistics pooled = episodes[0];
  pooled.count = 0;
  for (const FeatureStatistics& episode : episodes) pooled.count += episode.count;
  const auto n = static_cast<double>(pooled.count);
  const auto weighted_mean = [&](std::size_t channel, const auto& list_of) {
    double sum = 0.0;
    for (const FeatureStatistics& episode : episodes) {
      sum += list_of(episode)[channel] * static_cast<double>(episode.count);
    }
    return sum / n;
  };
  for (std::size_t channel = 0; channel < pooled.mean.size(); ++channel) {
    const double mean = weighted_mean(
        channel, [](const FeatureStatistics& s) -> const auto& { return s.mean; });
    double variance = 0.0;
    for (const FeatureStatistics& episode : episodes) {
      pooled.min[channel] = std::min(pooled.min[channel], episode.min[channel]);
      pooled.max[channel] = std::max(pooled.max[channel], episode.max[channel]);
      const double offset = episode.mean[channel] - mean;
      variance += (episode.std[channel] * episode.std[channel] + offset * offset) *
                  static_cast<double>(episode.count);
    }
    pooled.mean[channel] = mean;
    pooled.std[channel] = std::sqrt(variance / n);
    for (std::size_t i = 0; i < kQuantiles.size(); ++i) {
      pooled.quantiles[i][channel] = weighted_mean(
          channel, [i](const FeatureStatistics& s) -> const auto& { return s.quantiles[i]; });
    }
  }
  return pooled;
}

json ToJson(const FeatureStatistics& statistics, bool is_picture) {
  json result = {{"min", Shaped(statistics.min, is_picture)},
                 {"max", Shaped(statistics.max, is_picture)},
                 {"mean", Shaped(statistics.mean, is_picture)},
                 {"std", Shaped(statistics.std, is_picture)},
                 {"count", {statistics.count}}};
  for (std::size_t i = 0; i < kQuantiles.size(); ++i) {
    result[kQuantileNames[i]] = Shaped(statistics.quantiles[i], is_picture);
  }
  return result;
}

FeatureStatistics StatisticsFromJson(const json& values, const std::string& file) {
  const core::JsonView view(values, file);
  FeatureStatistics statistics;
  statistics.min = view.Get<std::vector<double>>("min");
  statistics.max = view.Get<std::vector<double>>("max");
  statistics.mean = view.Get<std::vector<double>>("mean");
  statistics.std = view.Get<std::vector<double>>("std");
  const auto count = view.Get<std::vector<std::int64_t>>("count");
  for (std::size_t i = 0; i < kQuantiles.size(); ++i) {
    statistics.quantiles[i] = view.Get<std::vector<double>>(kQuantileNames[i]);
  }
  if (count.size() != 1 || count[0] < 1) view.Fail("expected one positive number in 'count'");
  statistics.count = count[0];
  return statistics;
}

}  // namespace dp_bench::lerobot
