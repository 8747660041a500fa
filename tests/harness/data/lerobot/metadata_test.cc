#include "data/lerobot/metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/temporary_folder.h"
#include "support/error_of.h"

namespace dp_bench::lerobot {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr std::int64_t kMaxBytes = 1 << 24;

fs::path SmallFolder(const std::string& name) {
  return fs::path(DPB_SOURCE_DIR) / "tests/data/lerobot" / name;
}

// A dataset of version 2.1 with one episode and these features.
Metadata ReadFeatures(const std::string& features) {
  const core::TemporaryFolder folder;
  fs::create_directory(folder.path() / "meta");
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder.path() / "meta" / name) << text;
  };
  write("info.json", R"({"codebase_version": "v2.1", "fps": 10, "chunks_size": 2,
      "total_episodes": 1, "total_frames": 5, "data_path": "data/{episode_index:06d}.parquet",
      "features": {)" + features +
                         "}}");
  write("tasks.jsonl", R"({"task_index": 0, "task": "lift"})");
  write("episodes.jsonl", R"({"episode_index": 0, "tasks": ["lift"], "length": 5})");
  return ReadMetadata(folder.path(), kMaxBytes);
}

Feature ReadFeature(const std::string& json) {
  return ReadFeatures("\"key\": {" + json + "}").features.at("key");
}

TEST(LeRobotMetadata, ReadsVersion30) {
  const Metadata metadata = ReadMetadata(SmallFolder("v30_h264"), kMaxBytes);
  EXPECT_EQ(metadata.version, Version::kV30);
  EXPECT_EQ(metadata.fps, 7.0);
  EXPECT_THAT(metadata.tasks, ElementsAre(Pair(0, "push the block"), Pair(1, "lift the tray")));
  ASSERT_EQ(metadata.episodes.size(), 3U);
  EXPECT_EQ(metadata.episodes[1].length, 9);
  EXPECT_THAT(metadata.episodes[1].tasks, ElementsAre("lift the tray"));
  // a file per episode
  const VideoPlace& place = metadata.videos.at("observation.images.top")[2];
  EXPECT_EQ(place.file.file, 2);
  EXPECT_EQ(metadata.VideoFile("observation.images.top", place.file),
            metadata.root / "videos/observation.images.top/chunk-000/file-002.mp4");
  EXPECT_EQ(metadata.DataFile(metadata.episodes[2].data),
            metadata.root / "data/chunk-000/file-002.parquet");
}

TEST(LeRobotMetadata, EpisodesShareAFileFromTheirTimeOn) {
  const Metadata metadata = ReadMetadata(SmallFolder("v30_av1"), kMaxBytes);
  const std::vector<VideoPlace>& places = metadata.videos.at("observation.images.top");
  EXPECT_EQ(places[2].file, places[0].file);
  EXPECT_NEAR(places[1].from_timestamp, 1.2, 1e-9);
  EXPECT_NEAR(places[2].from_timestamp, 2.1, 1e-9);
}

TEST(LeRobotMetadata, ReadsVersions20And21) {
  for (const auto& [name, version] :
       {std::pair{"v20_images", Version::kV20}, std::pair{"v21_images", Version::kV21}}) {
    const Metadata metadata = ReadMetadata(SmallFolder(name), kMaxBytes);
    EXPECT_EQ(metadata.version, version);
    EXPECT_THAT(metadata.tasks, ElementsAre(Pair(0, "push the block"), Pair(1, "lift the tray")));
    EXPECT_EQ(metadata.DataFile(metadata.episodes[1].data),
              metadata.root / "data/chunk-000/episode_000001.parquet");
  }
}

TEST(LeRobotMetadata, ChannelNamesHaveManyForms) {
  const std::string feature = R"("dtype": "float32", "shape": [3], "names": )";
  EXPECT_THAT(ReadFeature(feature + R"(["a", "b", "c"])").channels, ElementsAre("a", "b", "c"));
  EXPECT_THAT(ReadFeature(feature + R"({"motors": ["a", "b", "c"]})").channels,
              ElementsAre("a", "b", "c"));
  EXPECT_THAT(ReadFeature(feature + R"({"b": 1, "c": 2, "a": 0})").channels,
              ElementsAre("a", "b", "c"));
  for (const char* nested :
       {R"([["a", "b", "c"]])", R"([["a"], ["b", "c"]])", R"({"axes": {"a": 0, "c": 2, "b": 1}})",
        R"({"motors": ["a", "b"], "gripper": ["c"]})", R"({"z": ["a"], "y": ["b", "c"]})"}) {
    EXPECT_THAT(ReadFeature(feature + nested).channels, ElementsAre("a", "b", "c")) << nested;
  }
  EXPECT_THAT(ReadFeature(feature + R"({"right": ["x", "y"], "left": ["x"]})").channels,
              ElementsAre("right.x", "right.y", "left.x"));
}

TEST(LeRobotMetadata, NamesThatAreNoChannelsAreToldAsAFault) {
  const std::string feature = R"("dtype": "float32", "shape": [3], "names": )";
  for (const char* names : {R"(["a","b"])", R"({"a":0,"b":1,"c":1})", R"(["joints"])",
                            R"([[["a","b","c"]]])", R"([1,2,3])"}) {
    const Feature found = ReadFeature(feature + names);
    EXPECT_THAT(found.channels, IsEmpty());
    EXPECT_EQ(found.names_fault, std::string(names) + " for 3 numbers");
  }
  for (const char* names : {"null", "[]", "{}"}) {
    const Feature found = ReadFeature(feature + names);
    EXPECT_THAT(found.channels, IsEmpty());
    EXPECT_EQ(found.names_fault, "");
  }
  EXPECT_EQ(
      ReadFeature(R"("dtype": "float32", "shape": [3, 2], "names": ["rows", "xy"])").names_fault,
      "");
}

TEST(LeRobotMetadata, AShapeThatIsNoneIsNamed) {
  const auto refusal = [](const std::string& shape) {
    return MessageOf(ErrorCode::kData, [&] {
      ReadFeature(R"("dtype": "float32", "names": null, "shape": )" + shape);
    });
  };
  EXPECT_THAT(refusal("[-1]"), HasSubstr("expected sizes of 0 or more, found -1"));
  EXPECT_THAT(refusal("[4096, 8192]"), HasSubstr("found [4096, 8192]"));
}

TEST(LeRobotMetadata, NamesSayWhichSizeIsWhichOrElseTheChannelsDo) {
  const auto size = [](const std::string& json) {
    const Feature feature = ReadFeature(R"("dtype": "image", )" + json);
    return std::vector<int>{feature.height, feature.width, feature.n_channels};
  };
  EXPECT_THAT(size(R"("shape": [48, 64, 3], "names": ["height", "width", "channels"])"),
              ElementsAre(48, 64, 3));
  EXPECT_THAT(size(R"("shape": [3, 48, 64], "names": ["channels", "height", "width"])"),
              ElementsAre(48, 64, 3));
  EXPECT_THAT(size(R"("shape": [64, 48, 3], "names": ["width", "height", "channel"])"),
              ElementsAre(48, 64, 3));
  EXPECT_THAT(size(R"("shape": [3, 48, 64])"), ElementsAre(48, 64, 3));
  EXPECT_THAT(size(R"("shape": [48, 64, 1])"), ElementsAre(48, 64, 1));
  const auto refusal = [&](const std::string& json) {
    return MessageOf(ErrorCode::kData, [&] { size(json); });
  };
  EXPECT_THAT(size(R"("shape": [48, 64, 3], "names": ["height", "width", "rgb"])"),
              ElementsAre(48, 64, 3));
  EXPECT_THAT(size(R"("shape": [3, 48, 64], "names": ["rgb", "h", "w"])"), ElementsAre(48, 64, 3));
  EXPECT_THAT(size(R"("shape": [48, 64, 4], "names": ["a", "b", "c"])"), ElementsAre(48, 64, 4));
  EXPECT_THAT(size(R"("shape": [48, 64, 3], "names": [["height", "width", "channels"]])"),
              ElementsAre(48, 64, 3));
  EXPECT_THAT(size(R"("shape": [3, 48, 64], "names": ["height", "width", "channels"])"),
              ElementsAre(48, 64, 3))
      << "names of another order, which the shape contradicts";
  EXPECT_THAT(size(R"("shape": [3, 48, 3], "names": ["height", "width", "channels"])"),
              ElementsAre(3, 48, 3));
  EXPECT_THAT(size(R"("shape": [48, 64])"), ElementsAre(48, 64, 1));
  EXPECT_THAT(refusal(R"("shape": [3, 48, 3])"), HasSubstr("does not say which is which"));
  EXPECT_THAT(refusal(R"("shape": [48, 64, 2], "names": ["height", "width", "channels"])"),
              HasSubstr("expected 1, 3 or 4 channels"));
  EXPECT_THAT(refusal(R"("shape": [48])"), HasSubstr("two or three sizes"));
}

TEST(LeRobotMetadata, TasksMayBeginAtOneAndHaveGaps) {
  const core::TemporaryFolder folder;
  fs::copy(SmallFolder("v21_images"), folder.path() / "copy", fs::copy_options::recursive);
  std::ofstream(folder.path() / "copy/meta/tasks.jsonl")
      << R"({"task_index": 7, "task": "lift the tray"})"
      << "\n"
      << R"({"task_index": 1, "task": "push the block"})";
  EXPECT_THAT(ReadMetadata(folder.path() / "copy", kMaxBytes).tasks,
              ElementsAre(Pair(1, "push the block"), Pair(7, "lift the tray")));
}

TEST(LeRobotMetadata, TheScaleOfDepthIsChecked) {
  const auto read = [](const std::string& info) {
    return ReadFeature(
        R"("dtype": "video", "shape": [48, 64, 1], "info": {"is_depth_map": true, )" + info + "}");
  };
  const Feature feature = read(
      R"("video.depth_min": 0.1, "video.depth_max": 4, "video.shift": 1, "video.use_log": false)");
  ASSERT_TRUE(feature.depth_code.has_value());
  EXPECT_EQ(feature.depth_code->max, 4.0);
  EXPECT_FALSE(feature.depth_code->is_logarithmic);
  const auto refusal = [&](const std::string& info) {
    return MessageOf(ErrorCode::kData, [&] { read(info); });
  };
  EXPECT_THAT(refusal(R"("video.depth_min": 4, "video.depth_max": 4, "video.shift": 1)"),
              HasSubstr("depth_min < depth_max"));
  EXPECT_THAT(refusal(R"("video.depth_min": 0, "video.depth_max": 4, "video.shift": 0)"),
              HasSubstr("depth_min + shift above 0"));
  EXPECT_THAT(refusal(R"("video.depth_min": 0, "video.depth_max": 4)"),
              HasSubstr("needs info.video.shift"));
}

TEST(LeRobotMetadata, LongIndicesTakeNoMemory) {
  const core::TemporaryFolder folder;
  fs::copy(SmallFolder("v21_images"), folder.path() / "copy", fs::copy_options::recursive);
  std::ofstream(folder.path() / "copy/meta/episodes.jsonl")
      << R"({"episode_index": 9000000000000, "tasks": [], "length": 5})";
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { ReadMetadata(folder.path() / "copy", kMaxBytes); }),
              AllOf(HasSubstr("episodes.jsonl"), HasSubstr("expected the index 0")));
}

TEST(PathTemplate, FillsInNumbersAndTheCamera) {
  const PathTemplate path("v/{video_key}/c-{chunk_index:03d}/{file_index:d}.mp4", "here");
  EXPECT_EQ(path.Format({.chunk = 7, .file = 12}, "top"), "v/top/c-007/12.mp4");
  EXPECT_EQ(path.Format({.chunk = 12345, .file = 0}, "top"), "v/top/c-12345/0.mp4");
}

TEST(PathTemplate, RefusesWhatIsNoTemplate) {
  const auto refusal = [](const char* text) {
    return MessageOf(ErrorCode::kData, [&] { PathTemplate(text, "info.json").Format({}, "top"); });
  };
  EXPECT_THAT(refusal("a/{chunk_index"), AllOf(HasSubstr("info.json"), HasSubstr("not closed")));
  EXPECT_THAT(refusal("a/{chunk_index:3f}"), HasSubstr("a format is not"));
  EXPECT_THAT(refusal("a/{__class__}"), HasSubstr("unknown name"));
  EXPECT_THAT(refusal("/etc/passwd"), HasSubstr("/etc/passwd"));
  EXPECT_THAT(refusal("a/../../b"), AllOf(HasSubstr("info.json"), HasSubstr("a/../../b"),
                                          HasSubstr("stays in the dataset's folder")));
}

}  // namespace
}  // namespace dp_bench::lerobot
