#include "data/lerobot/recorded_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "core/json.h"
#include "core/regular_file.h"
#include "data/lerobot/parquet_file.h"
#include "dp_bench/error.h"

namespace dp_bench::lerobot {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{4} << 30;
constexpr std::size_t kMaxLineBytes = std::size_t{64} << 20;
constexpr const char* kCount = "count";

// The numbers in lists of lists.
void CollectNumbers(const json& values, json* flat) {
  if (!values.is_array()) return flat->push_back(values);
  for (const json& value : values) CollectNumbers(value, flat);
}

// By episode; an episode that has none, or not all, stays empty.
using ByEpisode = std::vector<std::optional<FeatureStatistics>>;

void Put(std::int64_t episode, FeatureStatistics statistics, ByEpisode* all) {
  if (episode < 0 || episode >= std::ssize(*all)) return;  // Metadata has the right ones
  (*all)[static_cast<std::size_t>(episode)] = std::move(statistics);
}

// Version 2.1: a line per episode.
void ReadLines(const Metadata& metadata, std::map<std::string, ByEpisode>* found) {
  const fs::path path = metadata.root / "meta/episodes_stats.jsonl";
  if (!fs::exists(path)) return;
  core::LineReader lines(path, kMaxFileBytes, kMaxLineBytes);
  std::string line;
  for (std::int64_t number = 1; lines.Next(&line); ++number) {
    if (line.empty()) continue;
    const std::string what = fmt::format("{}:{}", path.string(), number);
    const json parsed = core::ParseJson(line, what);
    const core::JsonView view(parsed, what);
    const core::JsonView stats = view.At("stats");
    for (auto& [feature, episodes] : *found) {
      if (!stats.Has(feature)) continue;
      const core::JsonView own = stats.At(feature);
      bool is_complete = own.Has(kCount);
      if (!is_complete) continue;
      json flat = {{kCount, own.At(kCount).json()}};
      for (const std::string& name : StatisticNames()) {
        is_complete = is_complete && own.Has(name);
        if (!is_complete) break;
        flat[name] = json::array();
        CollectNumbers(own.At(name).json(), &flat[name]);
      }
      if (!is_complete) continue;
      Put(view.Get<std::int64_t>("episode_index"), StatisticsFromJson(flat, what), &episodes);
    }
  }
}

// A feature in a row group of the table of episodes of version 3.0.
void ReadGroup(ParquetFile* file, int group, const std::string& feature, std::int64_t n_channels,
               ByEpisode* episodes) {
  const std::string prefix = "stats/" + feature + "/";
  const auto indices = file->ReadNumbers<std::int64_t>(group, "episode_index");
  std::vector<FeatureStatistics> all(indices.size());
  const std::vector<std::string> names = StatisticNames();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto values = file->ReadNumbers<double>(group, prefix + names[i], n_channels);
    for (std::size_t row = 0; row < all.size(); ++row) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row) * n_channels;
      StatisticOf(all[row], i).assign(begin, begin + n_channels);
    }
  }
  const auto counts = file->ReadNumbers<std::int64_t>(group, prefix + kCount);
  for (std::size_t row = 0; row < all.size(); ++row) {
    all[row].count = counts[row];
    Put(indices[row], std::move(all[row]), episodes);
  }
}

bool HasAll(const ParquetFile& file, const std::string& feature) {
  return std::ranges::all_of(StatisticNames(), [&](const std::string& name) {
    return file.HasColumn(fmt::format("stats/{}/{}", feature, name));
  });
}

void ReadTables(const Metadata& metadata, std::int64_t max_bytes,
                std::map<std::string, ByEpisode>* found) {
  for (const auto& entry : fs::recursive_directory_iterator(metadata.root / "meta/episodes")) {
    if (entry.path().extension() != ".parquet") continue;
    ParquetFile file(entry.path(), max_bytes);
    for (auto& [feature, episodes] : *found) {
      if (!HasAll(file, feature)) continue;
      const int n_channels = metadata.features.at(feature).n_channels;
      try {
        for (int group = 0; group < file.num_row_groups(); ++group) {
          ReadGroup(&file, group, feature, n_channels, &episodes);
        }
      } catch (const Error& fault) {
        if (fault.code() != ErrorCode::kData) throw;
        std::ranges::fill(episodes, std::nullopt);  // LeRobot writes null for what it does not know
      }
    }
  }
}

bool IsSound(const FeatureStatistics& statistics, int n_channels) {
  for (std::size_t i = 0; i < StatisticNames().size(); ++i) {
    if (std::ssize(StatisticOf(statistics, i)) != n_channels) return false;
  }
  return statistics.count > 0;
}

}  // namespace

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

}  // namespace dp_bench::lerobot
