#include "data/lerobot/episode_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "core/atomic_file.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/json.h"
#include "data/lerobot/parquet_file.h"
#include "dp_bench/config_keys.h"
#include "media/video_joiner.h"

namespace dp_bench::lerobot {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kMaxTableBytes = std::int64_t{4} << 30;
constexpr std::size_t kMaxInfoBytes = std::size_t{64} << 20;

std::size_t Index(std::int64_t i) { return static_cast<std::size_t>(i); }

// The episodes of a file follow one another in it.
std::vector<std::int64_t> FirstRows(const Metadata& metadata) {
  std::map<FileNumber, std::int64_t> n_rows;
  std::vector<std::int64_t> first;
  for (const Episode& episode : metadata.episodes) {
    std::int64_t& row = n_rows[episode.data];
    first.push_back(row);
    row += episode.length;
  }
  return first;
}

std::string_view DTypeOf(const ordered_json& entry) {
  return entry.at("dtype").get_ref<const std::string&>();
}

bool IsPlain(const Feature& feature, const ordered_json& entry) {
  return DTypeOf(entry) == "float32" && feature.shape.size() == 1;
}

CopiedColumn MakeColumn(const Feature& feature, const ordered_json& entry) {
  CopiedColumn column{.name = feature.name, .entry = entry};
  if (feature.kind != Feature::Kind::kNumbers) return column;
  column.n_numbers = static_cast<std::int64_t>(NumElements(feature.shape));
  column.n_pooled = feature.shape.back();
  return column;
}

// What all say, key by key; `null` where they differ, as in LeRobot.
void KeepEqual(const ordered_json& other, ordered_json* info) {
  if (!info->is_object()) return;
  for (auto& [name, value] : info->items()) {
    if (!other.is_object() || !other.contains(name) || other.at(name) != value) value = nullptr;
  }
}

// Whether all rows are at the times of their frames, to within a quarter of one. The images of
// others are not the frames with their numbers.
bool AreAtFrames(const Metadata& metadata) {
  std::set<FileNumber> files;
  for (const Episode& episode : metadata.episodes) files.insert(episode.data);
  for (const FileNumber& number : files) {
    ParquetFile file(metadata.DataFile(number), kMaxTableBytes);
    const auto frames = file.ReadNumbers<double>("frame_index");
    const auto times = file.ReadNumbers<double>("timestamp");
    for (std::size_t i = 0; i < frames.size(); ++i) {
      if (!(std::abs(times[i] * metadata.fps - frames[i]) <= media::kMaxFrameOffset)) return false;
    }
  }
  return true;
}

// The file may have its rows in another order than the episodes.
void RequireFrames(const std::string& path, ParquetFile* file, const Rows& rows,
                   std::int64_t episode, std::int64_t first_frame) {
  const auto episodes = file->ReadNumbers<std::int64_t>("episode_index", rows);
  const auto frames = file->ReadNumbers<std::int64_t>("frame_index", rows);
  bool is_sound = std::ssize(episodes) == rows.n;
  for (std::size_t i = 0; is_sound && i < episodes.size(); ++i) {
    is_sound = episodes[i] == episode && frames[i] == first_frame + static_cast<std::int64_t>(i);
  }
  if (is_sound) return;
  throw DataError(
      "{}: expected the frames of episode {} in rows {} to {}, in order; columns that are no keys "
      "cannot be copied from this file",
      path, episode, rows.first, rows.first + rows.n - 1);
}

SourceFolder ReadFolder(const Config& folder) {
  SourceFolder source{.path = folder.Require<std::string>("path", "a LeRobot dataset")};
  const Config features = folder.Sub("features", "the feature that each key was read from");
  for (const std::string& key : features.Keys()) {
    source.features[key] = features.Require<std::string>(key, "the name in meta/info.json");
  }
  return source;
}

}  // namespace

SourceConfig SourceConfig::FromConfig(const Config& recorded) {
  constexpr std::int64_t kMaxFrames = std::int64_t{1} << 40;
  SourceConfig config;
  for (const Config& folder :
       recorded.List("folders", "the datasets; none if the episodes are not from LeRobot")) {
    config.folders.push_back(ReadFolder(folder));
  }
  config.folder_of = recorded.Get<std::vector<std::int64_t>>(
      "folder_of", {}, "for every episode that is written, which of the folders it is in");
  config.episode_of = recorded.Get<std::vector<std::int64_t>>(
      "episode_of", {}, "for every episode that is written, its index there");
  const ConfigKeys keys(recorded);
  keys("drop_first", &config.drop_first, 0, kMaxFrames, "frames left out where episodes begin");
  keys("drop_last", &config.drop_last, 0, kMaxFrames, "frames left out where episodes end");
  keys("only_keys", &config.only_keys,
       "leaves out columns of numbers that are no keys, except next.*");
  const bool is_sound = config.folder_of.size() == config.episode_of.size() &&
                        std::ranges::all_of(config.folder_of, [&](std::int64_t folder) {
                          return folder >= 0 && folder < std::ssize(config.folders);
                        });
  if (is_sound) return config;
  throw ConfigError("{}: expected as many folders as episodes, each from 0 to {}",
                    recorded.Where("folder_of"), std::ssize(config.folders) - 1);
}

EpisodeSource::EpisodeSource(const SourceConfig& config) : config_(config) {
  for (const SourceFolder& source : config_.folders) {
    Folder folder{.metadata = ReadMetadata(source.path, kMaxTableBytes)};
    // ReadMetadata has checked it; this keeps the order
    const auto info =
        ordered_json::parse(core::ReadTextFile(source.path / "meta/info.json", kMaxInfoBytes));
    folder.features = info.at("features");
    folder.robot_type = info.value("robot_type", ordered_json());
    folder.first_rows = FirstRows(folder.metadata);
    std::vector<std::string> videos;
    for (const auto& [key, feature] : source.features) {
      const auto known = folder.metadata.features.find(feature);
      if (known != folder.metadata.features.end()) {
        if (known->second.kind == Feature::Kind::kVideo) videos.push_back(feature);
        continue;
      }
      throw ConfigError("key '{}': {} has no feature '{}'", key, source.path.string(), feature);
    }
    folder.is_at_frames = videos.empty() || AreAtFrames(folder.metadata);
    folder.statistics = ReadEpisodeStatistics(folder.metadata, videos, kMaxTableBytes);
    folders_.push_back(std::move(folder));
  }
  for (std::size_t i = 0; i < config_.episode_of.size(); ++i) {
    const auto n = std::ssize(folders_[Index(config_.folder_of[i])].metadata.episodes);
    if (config_.episode_of[i] >= 0 && config_.episode_of[i] < n) continue;
    throw ConfigError("recorded.episode_of: expected 0 to {}, found {}", n - 1,
                      config_.episode_of[i]);
  }
}

const EpisodeSource::Folder& EpisodeSource::FolderOf(std::int64_t episode) const {
  return folders_[Index(config_.folder_of.at(Index(episode)))];
}

const std::string& EpisodeSource::FeatureOf(std::size_t folder, const std::string& key) const {
  return config_.folders[folder].features.at(key);
}

std::optional<std::string> EpisodeSource::RobotType(std::vector<std::string>* notes) const {
  if (folders_.empty()) return std::nullopt;
  const ordered_json& first = folders_[0].robot_type;
  for (std::size_t i = 1; i < folders_.size(); ++i) {
    const ordered_json& other = folders_[i].robot_type;
    if (other == first) continue;
    notes->push_back(fmt::format(
        "robot_type: null, because it is {} in {}, but {} in {}; give one with --param robot_type",
        core::ShortDump(first), folders_[0].metadata.root.string(), core::ShortDump(other),
        folders_[i].metadata.root.string()));
    return std::nullopt;
  }
  return first.is_string() ? std::optional(first.get<std::string>()) : std::nullopt;
}

RecordedVideo EpisodeSource::FindVideo(const std::string& key) const {
  RecordedVideo video;
  for (std::size_t i = 0; i < folders_.size(); ++i) {
    const Metadata& metadata = folders_[i].metadata;
    const std::string& name = FeatureOf(i, key);
    const std::string root = metadata.root.string();
    if (metadata.features.at(name).kind != Feature::Kind::kVideo) {
      video.obstacle = fmt::format("'{}' of {} is no video", name, root);
      continue;
    }
    video.is_video = true;
    const Feature& feature = metadata.features.at(name);
    const Feature& first = folders_[0].metadata.features.at(FeatureOf(0, key));
    if (feature.depth_code != first.depth_code || feature.depth_unit != first.depth_unit) {
      video.obstacle = fmt::format("'{}' of {} has another scale of depth", name, root);
    }
    const std::string codec =
        media::VideoCodecOf(metadata.VideoFile(name, metadata.videos.at(name)[0].file));
    const ordered_json& entry = folders_[i].features.at(name);
    if (video.codec.empty()) {
      video.codec = codec;
      video.entry = entry;
      video.is_depth = feature.is_depth;
      if (feature.depth_unit) video.depth_unit = *feature.depth_unit * 1000.0;
    } else if (video.codec != codec) {
      video.obstacle = fmt::format("'{}' of {} is {}, and that of other sources is {}", name, root,
                                   codec, video.codec);
    } else if (video.entry.contains("info")) {
      KeepEqual(entry.value("info", ordered_json()), &video.entry.at("info"));
    }
    if (!folders_[i].is_at_frames) {
      video.obstacle = fmt::format("rows of {} are at other times than the frames", root);
    }
  }
  if (config_.drop_first > 0 || config_.drop_last > 0) {
    video.obstacle = "steps of the episodes are left out";
  }
  return video;
}

media::VideoPart EpisodeSource::VideoOf(const std::string& key, std::int64_t episode) const {
  const auto folder = Index(config_.folder_of.at(Index(episode)));
  const Metadata& metadata = folders_[folder].metadata;
  const std::string& name = FeatureOf(folder, key);
  const std::size_t index = Index(config_.episode_of[Index(episode)]);
  const VideoPlace& place = metadata.videos.at(name).at(index);
  return {.file = metadata.VideoFile(name, place.file),
          .from_time = place.from_timestamp,
          .n_frames = metadata.episodes[index].length};
}

std::optional<FeatureStatistics> EpisodeSource::StatisticsOf(const std::string& key,
                                                             std::int64_t episode) const {
  const auto folder = Index(config_.folder_of.at(Index(episode)));
  const auto& statistics = folders_[folder].statistics;
  const auto found = statistics.find(FeatureOf(folder, key));
  if (found == statistics.end()) return std::nullopt;
  return found->second.at(Index(config_.episode_of[Index(episode)]));
}

ordered_json EpisodeSource::FindEntry(const std::string& key,
                                      const std::vector<std::string>& channels,
                                      std::int64_t n) const {
  if (is_empty()) return nullptr;
  const std::string& name = FeatureOf(0, key);
  const Feature& feature = folders_[0].metadata.features.at(name);
  const ordered_json& entry = folders_[0].features.at(name);
  const bool is_same =
      IsPlain(feature, entry) && feature.shape[0] == n && feature.channels == channels;
  return is_same ? entry : ordered_json();
}

std::optional<CopiedColumn> EpisodeSource::FindColumn(const std::string& key,
                                                      const std::vector<std::string>& channels,
                                                      std::int64_t n) const {
  if (is_empty()) return std::nullopt;
  const std::string& name = FeatureOf(0, key);
  const Feature& feature = folders_[0].metadata.features.at(name);
  const ordered_json& entry = folders_[0].features.at(name);
  if (feature.kind != Feature::Kind::kNumbers || IsPlain(feature, entry)) return std::nullopt;
  const bool are_named = !channels.empty() && !feature.channels.empty();
  if (are_named && feature.channels != channels) return std::nullopt;  // the key has another order
  for (std::size_t i = 1; i < folders_.size(); ++i) {
    if (FeatureOf(i, key) != name) return std::nullopt;
  }
  const CopiedColumn column = MakeColumn(feature, entry);
  if (column.n_numbers != n || !ObstacleOf(name).empty()) return std::nullopt;
  return column;
}

bool EpisodeSource::IsShown(const std::string& feature) const {
  return std::ranges::any_of(config_.folders, [&](const SourceFolder& folder) {
    return std::ranges::any_of(folder.features,
                               [&](const auto& key) { return key.second == feature; });
  });
}

// Why a column cannot be copied from all folders; empty if it can.
std::string EpisodeSource::ObstacleOf(const std::string& feature) const {
  std::string type;  // of the column
  for (const Folder& folder : folders_) {
    const std::string root = folder.metadata.root.string();
    if (!folder.features.contains(feature)) return fmt::format("{} does not have it", root);
    const ordered_json& entry = folder.features.at(feature);
    const ordered_json& first = folders_[0].features.at(feature);
    if (entry.at("dtype") != first.at("dtype") || entry.at("shape") != first.at("shape")) {
      return fmt::format("it has another dtype or shape in {}", root);
    }
    const Feature& known = folder.metadata.features.at(feature);
    const std::vector<std::string>& channels = folders_[0].metadata.features.at(feature).channels;
    if (known.channels != channels && !known.channels.empty() && !channels.empty()) {
      return fmt::format("its channels have other names or another order in {}", root);
    }
    const bool is_numbers = known.kind == Feature::Kind::kNumbers && NumElements(known.shape) > 0;
    if (!is_numbers && DTypeOf(entry) != "string") {
      return fmt::format("{} of shape {} is not supported", DTypeOf(entry),
                         entry.at("shape").dump());
    }
    const auto file = folder.metadata.DataFile(folder.metadata.episodes[0].data);
    const std::string found = ParquetFile(file, kMaxTableBytes).TypeOf(feature);
    if (found.empty()) return fmt::format("{} has no such column", file.string());
    if (type.empty()) type = found;
    if (type != found) return fmt::format("it is {} in {}, and {} before", found, root, type);
  }
  return "";
}

std::vector<CopiedColumn> EpisodeSource::OtherColumns(std::vector<std::string>* left_out) const {
  std::vector<CopiedColumn> columns;
  std::vector<std::string> names;
  for (const Folder& folder : folders_) {
    for (const auto& [name, entry] : folder.features.items()) {
      if (IsOwnColumn(name) || IsShown(name) || std::ranges::find(names, name) != names.end()) {
        continue;
      }
      names.push_back(name);
    }
  }
  for (const std::string& name : names) {
    const Folder& folder = *std::ranges::find_if(
        folders_, [&name](const Folder& other) { return other.features.contains(name); });
    const bool could_be_key =
        !name.starts_with("next.") && DTypeOf(folder.features.at(name)) != "string";
    const std::string obstacle = config_.only_keys && could_be_key
                                     ? "it is not among the keys that were asked for"
                                     : ObstacleOf(name);
    if (obstacle.empty()) {
      columns.push_back(
          MakeColumn(folders_[0].metadata.features.at(name), folders_[0].features.at(name)));
    } else {
      left_out->push_back(fmt::format("{}: left out: {}", name, obstacle));
    }
  }
  return columns;
}

void EpisodeSource::Copy(std::span<const CopiedColumn> columns, std::int64_t episode,
                         std::int64_t n_frames, ParquetTable* table,
                         std::map<std::string, FeatureStatistics>* statistics) const {
  if (columns.empty()) return;
  const Folder& folder = FolderOf(episode);
  const std::int64_t index = config_.episode_of[Index(episode)];
  const auto path = folder.metadata.DataFile(folder.metadata.episodes[Index(index)].data);
  const Rows rows{.first = folder.first_rows[Index(index)] + config_.drop_first, .n = n_frames};
  ParquetFile file(path, kMaxTableBytes);
  RequireFrames(path.string(), &file, rows, index, config_.drop_first);
  for (const CopiedColumn& column : columns) {
    table->CopyColumn(column.name, file, rows);
    if (column.n_numbers == 0) continue;
    const auto values = file.ReadNumbers<double>(column.name, rows, column.n_numbers);
    if (!std::ranges::all_of(values, [](double value) { return std::isfinite(value); })) {
      core::LogWarning(
          "{}: '{}' holds NaN or Inf in episode {}: copied, but left out of the statistics",
          path.string(), column.name, index);
    }
    FeatureStatistics& own = (*statistics)[column.name];
    own = SummarizeNumbers(values, static_cast<std::size_t>(column.n_pooled));
    own.count = n_frames;  // also of a matrix, whose rows are pooled
  }
}

}  // namespace dp_bench::lerobot
