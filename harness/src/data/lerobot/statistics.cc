#include "data/lerobot/statistics.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "core/console.h"
#include "core/json.h"
#include "data/lerobot/parquet_file.h"
#include "dp_bench/error.h"

namespace dp_bench::lerobot {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kCount = "count";
constexpr const char* kStatisticsOfEpisodes = "meta/episodes_stats.jsonl";  // of version 2.1
constexpr std::int64_t kMaxLine = std::int64_t{64} << 20;
constexpr std::size_t kBins = 5000;
constexpr double kRangePadding = 1e-10;  // of the histogram, at both ends
constexpr std::array<double, 5> kQuantiles = {0.01, 0.10, 0.50, 0.90, 0.99};

constexpr std::int64_t kMinSample = 100;  // images
constexpr std::int64_t kMaxSample = 10'000;
constexpr double kSamplePower = 0.75;
constexpr int kLargeImage = 300;   // [px]
constexpr int kReducedSide = 150;  // [px]

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
  statistics->lists[kMin].push_back(min);
  statistics->lists[kMax].push_back(max);
  statistics->lists[kMean].push_back(mean);
  statistics->lists[kStd].push_back(std::sqrt(squares / n));
  for (std::size_t i = 0; i < kQuantiles.size(); ++i) {
    // a single number has no histogram
    statistics->lists[kFirstQuantile + i].push_back(n < 2.0 ? mean
                                                            : histogram.Quantile(kQuantiles[i], n));
  }
}

// Which of n images LeRobot looks at.
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

json Shaped(const std::vector<double>& values, bool is_image) {
  if (!is_image) return values;
  json result = json::array();
  for (const double value : values) result.push_back({{value}});
  return result;
}

void AppendNumbers(const core::JsonView& where, const json& values, std::vector<double>* out) {
  if (values.is_array()) {
    for (const json& value : values) AppendNumbers(where, value, out);
  } else if (values.is_number()) {
    out->push_back(values.get<double>());
  } else if (values.is_boolean()) {
    out->push_back(values.get<bool>() ? 1.0 : 0.0);
  } else {
    where.Fail("expected numbers");
  }
}

// The numbers in lists of lists.
std::vector<double> NumbersIn(const core::JsonView& list) {
  std::vector<double> numbers;
  AppendNumbers(list, list.json(), &numbers);
  return numbers;
}

// By episode; an episode that has none, or not all, stays empty.
using ByEpisode = std::vector<std::optional<FeatureStatistics>>;

void Put(std::int64_t episode, FeatureStatistics statistics, ByEpisode* all) {
  if (episode < 0 || episode >= std::ssize(*all)) return;  // Metadata has the right ones
  (*all)[static_cast<std::size_t>(episode)] = std::move(statistics);
}

// Version 2.1: a line per episode.
void ReadLines(const Metadata& metadata, std::map<std::string, ByEpisode>* found) {
  const fs::path path = metadata.root / kStatisticsOfEpisodes;
  if (!fs::exists(path)) return;
  ReadJsonLines(path, kMaxLine, [&](const core::JsonView& line) {
    const core::JsonView stats = line.At("stats");
    for (auto& [feature, episodes] : *found) {
      if (!stats.Has(feature)) continue;
      const core::JsonView own = stats.At(feature);
      const bool is_complete =
          own.Has(kCount) &&
          std::ranges::all_of(kStatisticNames, [&own](const char* name) { return own.Has(name); });
      if (is_complete) {
        Put(line.Get<std::int64_t>("episode_index"), ReadStatistics(own), &episodes);
      }
    }
  });
}

// A feature in a file of the table of episodes of version 3.0, which may have no such columns.
void ReadTable(ParquetFile* file, const std::string& feature, std::int64_t n_channels,
               ByEpisode* episodes) {
  const std::string prefix = "stats/" + feature + "/";
  if (!std::ranges::all_of(kStatisticNames,
                           [&](const char* name) { return file->HasColumn(prefix + name); })) {
    return;
  }
  const auto indices = file->ReadNumbers<std::int64_t>("episode_index");
  std::vector<FeatureStatistics> all(indices.size());
  for (std::size_t i = 0; i < kStatisticNames.size(); ++i) {
    const auto values = file->ReadNumbers<double>(prefix + kStatisticNames[i], n_channels);
    for (std::size_t row = 0; row < all.size(); ++row) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row) * n_channels;
      all[row].lists[i].assign(begin, begin + n_channels);
    }
  }
  const auto counts = file->ReadNumbers<std::int64_t>(prefix + kCount);
  for (std::size_t row = 0; row < all.size(); ++row) {
    all[row].count = counts[row];
    Put(indices[row], std::move(all[row]), episodes);
  }
}

void ReadTables(const Metadata& metadata, std::int64_t max_bytes,
                std::map<std::string, ByEpisode>* found) {
  for (const fs::path& path : EpisodeFiles(metadata.root)) {
    ParquetFile file(path, max_bytes);
    for (auto& [feature, episodes] : *found) {
      try {
        ReadTable(&file, feature, metadata.features.at(feature).n_channels, &episodes);
      } catch (const Error& fault) {
        if (fault.code() != ErrorCode::kData) throw;
        std::ranges::fill(episodes, std::nullopt);  // LeRobot writes null for what it does not know
      }
    }
  }
}

bool IsSound(const FeatureStatistics& statistics, int n_channels) {
  return statistics.count > 0 && std::ranges::all_of(statistics.lists, [=](const auto& list) {
           return std::ssize(list) == n_channels;
         });
}

StatedRange ReadRange(const Feature& feature, const core::JsonView& own) {
  const auto n_numbers = static_cast<std::size_t>(NumElements(feature.shape));
  // since 0.4, LeRobot pools all axes of a feature but the last one
  const auto n_pooled = static_cast<std::size_t>(feature.shape.back());
  std::map<std::string, std::vector<double>> values;
  for (const char* name : {"min", "max", "mean", "std"}) {
    const core::JsonView list = own.At(name);
    values[name] = NumbersIn(list);
    const std::size_t n = values[name].size();
    if ((n != n_numbers && n != n_pooled) || n != values["min"].size()) {
      list.Fail("expected {} numbers, found {}", n_numbers, n);
    }
  }
  const std::size_t n = values["min"].size();
  for (std::size_t i = 0; i < n; ++i) {
    if (!(values["min"][i] <= values["max"][i])) {
      own.Fail("the minimum {} of element {} is above the maximum {}", values["min"][i], i,
               values["max"][i]);
    }
    if (values["std"][i] < 0.0) own.At("std").Fail("a deviation is negative");
  }
  return {.min = std::move(values["min"]), .max = std::move(values["max"])};
}

// Widens `range`. An empty one becomes the other.
void Unite(const StatedRange& other, StatedRange* range) {
  if (range->min.size() != other.min.size()) {
    *range = other;
    return;
  }
  for (std::size_t i = 0; i < other.min.size(); ++i) {
    range->min[i] = std::min(range->min[i], other.min[i]);
    range->max[i] = std::max(range->max[i], other.max[i]);
  }
}

}  // namespace

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

ImageSummary::ImageSummary(const Shape& shape)
    : shape_(shape),
      frames_(SampleOf(shape.n_frames)),
      counts_(static_cast<std::size_t>(shape.n_channels),
              std::vector<std::uint64_t>(shape.n_levels)) {
  const int larger = std::max(shape.width, shape.height);
  if (larger >= kLargeImage) stride_ = static_cast<std::size_t>(larger / kReducedSide);
}

template <class T>
void ImageSummary::Add(std::span<const T> pixels) {
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

template void ImageSummary::Add(std::span<const std::uint8_t>);
template void ImageSummary::Add(std::span<const std::uint16_t>);

FeatureStatistics ImageSummary::Finish() const {
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
  for (std::vector<double>& list : statistics.lists) {
    for (double& value : list) value /= shape_.scale;
  }
  return statistics;
}

FeatureStatistics Pool(std::span<const FeatureStatistics> episodes) {
  DPB_ASSERT(!episodes.empty());
  FeatureStatistics pooled = episodes[0];
  pooled.count = 0;
  for (const FeatureStatistics& episode : episodes) pooled.count += episode.count;
  const auto n = static_cast<double>(pooled.count);
  for (std::size_t channel = 0; channel < pooled.lists[kMean].size(); ++channel) {
    const auto weighted_mean = [&](std::size_t list) {
      double sum = 0.0;
      for (const FeatureStatistics& episode : episodes) {
        sum += episode.lists[list][channel] * static_cast<double>(episode.count);
      }
      return sum / n;
    };
    const auto keep = [channel](double value, const auto& choose, std::vector<double>* list) {
      (*list)[channel] = choose((*list)[channel], value);
    };
    const double mean = weighted_mean(kMean);
    double variance = 0.0;
    for (const FeatureStatistics& episode : episodes) {
      keep(episode.lists[kMin][channel], std::ranges::min, &pooled.lists[kMin]);
      keep(episode.lists[kMax][channel], std::ranges::max, &pooled.lists[kMax]);
      const double std = episode.lists[kStd][channel];
      const double offset = episode.lists[kMean][channel] - mean;
      variance += (std * std + offset * offset) * static_cast<double>(episode.count);
    }
    pooled.lists[kMean][channel] = mean;
    pooled.lists[kStd][channel] = std::sqrt(variance / n);
    for (std::size_t list = kFirstQuantile; list < pooled.lists.size(); ++list) {
      pooled.lists[list][channel] = weighted_mean(list);
    }
  }
  return pooled;
}

json ToJson(const FeatureStatistics& statistics, bool is_image) {
  json result = {{kCount, {statistics.count}}};
  for (std::size_t i = 0; i < kStatisticNames.size(); ++i) {
    result[kStatisticNames[i]] = Shaped(statistics.lists[i], is_image);
  }
  return result;
}

FeatureStatistics ReadStatistics(const core::JsonView& values) {
  FeatureStatistics statistics;
  for (std::size_t i = 0; i < kStatisticNames.size(); ++i) {
    statistics.lists[i] = NumbersIn(values.At(kStatisticNames[i]));
  }
  const std::vector<double> count = NumbersIn(values.At(kCount));
  if (count.size() != 1 || count[0] < 1.0) values.Fail("expected one positive number in 'count'");
  statistics.count = static_cast<std::int64_t>(count[0]);
  return statistics;
}

std::map<std::string, std::vector<FeatureStatistics>> ReadEpisodeStatistics(
    const Metadata& metadata, const std::vector<std::string>& features, std::int64_t max_bytes) {
  std::map<std::string, ByEpisode> found;
  for (const std::string& feature : features) found[feature].resize(metadata.episodes.size());
  if (metadata.version == Version::kV30) ReadTables(metadata, max_bytes, &found);
  if (metadata.version == Version::kV21) ReadLines(metadata, &found);

  std::map<std::string, std::vector<FeatureStatistics>> complete;
  for (const auto& [feature, episodes] : found) {
    const int n_channels = metadata.features.at(feature).n_channels;
    const bool is_complete = std::ranges::all_of(episodes, [n_channels](const auto& statistics) {
      return statistics && IsSound(*statistics, n_channels);
    });
    if (!is_complete) continue;
    for (const auto& statistics : episodes) complete[feature].push_back(*statistics);
  }
  return complete;
}

std::map<std::string, StatedRange> ReadRanges(const Metadata& metadata,
                                              const std::vector<std::string>& features) {
  const bool is_by_episode = metadata.version == Version::kV21;
  const fs::path path = metadata.root / (is_by_episode ? kStatisticsOfEpisodes : "meta/stats.json");
  const std::size_t n_wanted = is_by_episode ? metadata.episodes.size() : 1;
  std::map<std::string, StatedRange> ranges;
  std::map<std::string, std::set<std::int64_t>> stated;  // episodes, by feature
  const auto read = [&](const core::JsonView& stats, std::int64_t episode) {
    for (const std::string& name : features) {
      if (!stats.Has(name)) continue;
      const Feature& feature = metadata.features.at(name);
      stated[name].insert(episode);
      if (!feature.is_camera()) Unite(ReadRange(feature, stats.At(name)), &ranges[name]);
    }
  };
  if (fs::exists(path) && is_by_episode) {
    ReadJsonLines(path, kMaxLine, [&](const core::JsonView& line) {
      const auto episode = line.Get<std::int64_t>("episode_index");
      if (episode < 0 || episode >= std::ssize(metadata.episodes)) {
        line.At("episode_index").Fail("there is no episode {}", episode);
      }
      read(line.At("stats"), episode);
    });
  } else if (fs::exists(path)) {
    const std::string what = path.string();
    const json stats = core::ReadJsonFile(path, static_cast<std::size_t>(kMaxLine));
    read(core::JsonView(stats, what), 0);
  }
  for (const std::string& name : features) {
    if (stated[name].size() == n_wanted) continue;
    ranges.erase(name);
    core::LogInfo("{}: no statistics of '{}'{}; dp_bench computes its own", path.string(), name,
                  is_by_episode ? " in each episode" : "");
  }
  return ranges;
}

}  // namespace dp_bench::lerobot
