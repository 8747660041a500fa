#include "data/lerobot/writer_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "dp_bench/error.h"

namespace dp_bench::lerobot {
namespace {

FeatureConfig ReadFeature(const std::string& name, const Config& feature) {
  return {.name = name,
          .keys = feature.Require<std::vector<std::string>>(
              "keys", "the keys whose numbers it consists of, in this order; one for a camera"),
          .channels = feature.Get<std::vector<std::string>>(
              "names", {}, "a name per number; none for the names of the keys")};
}

SourceFolder ReadFolder(const Config& folder) {
  SourceFolder source{.path = folder.Require<std::string>("path", "a LeRobot data set")};
  const Config features = folder.Sub("features", "the feature that each key was read from");
  for (const std::string& key : features.Keys()) {
    source.features[key] = features.Require<std::string>(key, "the name in meta/info.json");
  }
  return source;
}

SourceConfig ReadSources(const Config& recorded) {
  constexpr std::int64_t kMaxFrames = std::int64_t{1} << 40;
  SourceConfig config;
  for (const Config& folder :
       recorded.List("folders", "the data sets; none if the episodes are not from LeRobot")) {
    config.folders.push_back(ReadFolder(folder));
  }
  config.folder_of = recorded.Get<std::vector<std::int64_t>>(
      "folder_of", {}, "for every episode that is written, which of the folders it is in");
  config.episode_of = recorded.Get<std::vector<std::int64_t>>(
      "episode_of", {}, "for every episode that is written, its index there");
  config.drop_first = recorded.GetInRange("drop_first", std::int64_t{0}, std::int64_t{0},
                                          kMaxFrames, "frames left out where episodes begin");
  config.drop_last = recorded.GetInRange("drop_last", std::int64_t{0}, std::int64_t{0}, kMaxFrames,
                                         "frames left out where episodes end");
  config.only_keys = recorded.Get<bool>(
      "only_keys", false, "leaves out columns of numbers that are no keys, except next.*");
  const bool is_sound = config.folder_of.size() == config.episode_of.size() &&
                        std::ranges::all_of(config.folder_of, [&](std::int64_t folder) {
                          return folder >= 0 && folder < std::ssize(config.folders);
                        });
  if (is_sound) return config;
  throw Error(ErrorCode::kConfig,
              fmt::format("{}: expected as many folders as episodes, each from "
                          "0 to {}",
                          recorded.Where("folder_of"), std::ssize(config.folders) - 1));
}

}  // namespace

LeRobotWriterConfig LeRobotWriterConfig::FromConfig(const Config& params) {
  LeRobotWriterConfig config{
      .path = params.Require<std::string>("path", "the folder to write, which must not exist"),
      .source = params.Require<std::string>(
          "source", "where the episodes come from; to continue, it must be the same"),
      .robot_type = params.GetOptional<std::string>("robot_type", "robot_type of meta/info.json")};
  const std::string version =
      params.GetChoice("version", {"v3.0", "v2.1"}, "version of the format");
  config.version = version == "v3.0" ? Version::kV30 : Version::kV21;
  constexpr double kMinMb = 1e-3;
  constexpr double kMaxMb = 1e6;
  config.data_file_mb =
      params.GetInRange("data_files_size_in_mb", config.data_file_mb, kMinMb, kMaxMb,
                        "MiB of a Parquet file of version 3.0, after which the next one begins");
  config.video_file_mb =
      params.GetInRange("video_files_size_in_mb", config.video_file_mb, kMinMb, kMaxMb,
                        "MiB of a video file of version 3.0, after which the next one begins");
  config.codec = params.GetChoice(
      "codec", {"auto", "png", "h264", "hevc", "av1"},
      "how pictures are stored. auto: videos of LeRobot data sets are copied, other pictures are "
      "PNG; png: all are PNG; h264, hevc, av1: videos with this codec are copied, other colour "
      "pictures are encoded, and other depth is PNG");
  constexpr std::int64_t kWorstCrf = 51;
  config.crf = static_cast<int>(
      params.GetInRange("crf", std::int64_t{config.crf}, std::int64_t{0}, kWorstCrf,
                        "quality of videos that are encoded: 0 is the best"));
  config.recorded = ReadSources(
      params.Sub("recorded", "where the episodes are recorded; `dp_bench dataset` fills it in"));
  const Config features = params.Sub("features", "LeRobot's features");
  for (const std::string& name : features.Keys()) {
    config.features.push_back(ReadFeature(name, features.Sub(name)));
  }
  return config;
}

}  // namespace dp_bench::lerobot
