// LeRobot datasets with videos that are written: encoded, or copied from what LeRobot wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/temporary_folder.h"
#include "data/lerobot/parquet_file.h"
#include "data/lerobot/writer.h"
#include "small_lerobot.h"
#include "support/error_of.h"

namespace dp_bench::lerobot {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ReadText;
using testing::SmallFolder;

constexpr std::int64_t kMaxBytes = std::int64_t{64} << 20;
constexpr int kWidth = 32;
constexpr int kHeight = 24;
constexpr double kMinPsnr = 30.0;  // [dB]; measured: 35.6 to 42.1

nlohmann::json InfoOf(const fs::path& root) {
  return nlohmann::json::parse(ReadText(root / "meta/info.json"));
}

DatasetSpec VideoSpecOf(int width = kWidth) {
  return {.keys = {{.name = "action", .shape = {1}},
                   {.name = "rgb",
                    .type = KeyType::kRgb,
                    .shape = {3, kHeight, width},
                    .dtype = DType::kUInt8}},
          .fps = 12.5};
}

LeRobotWriterConfig VideoWriterConfig(const fs::path& path, const std::string& codec) {
  return {.path = path,
          .source = "a test",
          .codec = codec,
          .features = {{.name = "action", .keys = {"action"}, .channels = {}},
                       {.name = "observation.images.rgb", .keys = {"rgb"}, .channels = {}}}};
}

// A smooth image that changes from step to step.
std::vector<std::uint8_t> FrameOf(int step) {
  std::vector<std::uint8_t> rgb;
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      const double phase = 0.05 * (x + y) + 0.5 * step;
      for (const double shift : {0.0, 1.0, 2.0}) {
        rgb.push_back(static_cast<std::uint8_t>(128.0 + 100.0 * std::sin(phase + shift)));
      }
    }
  }
  return rgb;
}

void AppendWithVideo(DatasetWriter& writer, int step) {
  const float action = static_cast<float>(step);
  const std::vector<std::uint8_t> rgb = FrameOf(step);
  const std::vector<std::span<const std::byte>> values = {std::as_bytes(std::span(&action, 1)),
                                                          std::as_bytes(std::span(rgb))};
  writer.Append(values);
}

// Episodes of 5, 1 and 6 steps, from the first one that is missing.
void WriteVideo(DatasetWriter& writer) {
  const std::vector<int> lengths = {5, 1, 6};
  int step = 0;
  for (std::size_t episode = 0; episode < lengths.size(); ++episode) {
    const int end = step + lengths[episode];
    if (static_cast<std::int64_t>(episode) >= writer.n_episodes()) {
      writer.BeginEpisode({.n_steps = lengths[episode], .task = "look"});
      for (int i = step; i < end; ++i) AppendWithVideo(writer, i);
    }
    step = end;
  }
  writer.Finish();
}

void WriteVideo(const LeRobotWriterConfig& config) {
  LeRobotWriter writer(config, VideoSpecOf());
  WriteVideo(writer);
}

double PsnrOf(const std::vector<std::uint8_t>& found, const std::vector<std::uint8_t>& wanted) {
  double sum = 0.0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    sum += std::pow(static_cast<double>(found.at(i)) - wanted[i], 2);
  }
  return 10.0 * std::log10(255.0 * 255.0 * static_cast<double>(wanted.size()) / sum);
}

void ExpectVideo(const fs::path& path) {
  const LeRobotDataset dataset({.path = path});
  EXPECT_THAT(dataset.episode_ends(), ElementsAre(5, 6, 12));
  for (int step = 0; step < 12; ++step) {
    EXPECT_GT(PsnrOf(ReadSteps<std::uint8_t>(dataset, "rgb", step, step + 1), FrameOf(step)),
              kMinPsnr)
        << step;
  }
}

class LeRobotCodecs : public ::testing::TestWithParam<const char*> {};

TEST_P(LeRobotCodecs, AreReadBackInBothVersions) {
  const core::TemporaryFolder folder;
  for (const Version version : {Version::kV30, Version::kV21}) {
    LeRobotWriterConfig config =
        VideoWriterConfig(folder.path() / (version == Version::kV30 ? "new" : "old"), GetParam());
    config.version = version;
    LeRobotWriter writer(config, VideoSpecOf());
    EXPECT_THAT(writer.Notes(), ElementsAre(AllOf(HasSubstr(GetParam()), HasSubstr("with loss"))));
    WriteVideo(writer);
    ExpectVideo(config.path);
    const nlohmann::json info = InfoOf(config.path);
    const nlohmann::json& feature = info["features"]["observation.images.rgb"];
    EXPECT_EQ(feature["dtype"], "video");
    EXPECT_EQ(feature["info"]["video.codec"], GetParam());
    EXPECT_EQ(feature["info"]["video.fps"], 12.5);
    const bool has_preset = std::string(GetParam()) != "av1";  // these are too small for SVT-AV1
    EXPECT_EQ(feature["info"]["video.preset"].is_null(), !has_preset);
    EXPECT_THAT(info["video_path"].get<std::string>(), HasSubstr("{video_key}"));
  }
  EXPECT_EQ(InfoOf(folder.path() / "old")["total_videos"], 3);
  EXPECT_TRUE(
      fs::exists(folder.path() / "old/videos/chunk-000/observation.images.rgb/episode_000002.mp4"));
}

INSTANTIATE_TEST_SUITE_P(All, LeRobotCodecs, ::testing::Values("h264", "hevc", "av1"),
                         [](const auto& codec) { return std::string(codec.param); });

// As a power cut may leave it.
TEST(LeRobotVideo, AnEpisodeWithAShortVideoIsWrittenAgain) {
  const core::TemporaryFolder folder;
  const LeRobotWriterConfig config = VideoWriterConfig(folder.path() / "data", "h264");
  {
    LeRobotWriter writer(config, VideoSpecOf());
    writer.BeginEpisode({.n_steps = 5, .task = "look"});
    for (int step = 0; step < 5; ++step) AppendWithVideo(writer, step);
  }
  const fs::path unfinished = config.path.string() + ".unfinished";
  fs::resize_file(unfinished / "videos/observation.images.rgb/episode_000000.mp4", 100);
  LeRobotWriter writer(config, VideoSpecOf());
  EXPECT_EQ(writer.n_episodes(), 0);
  WriteVideo(writer);
  ExpectVideo(config.path);
}

TEST(LeRobotVideo, AnotherWriterContinuesWithTheSameBytes) {
  const core::TemporaryFolder folder;
  const LeRobotWriterConfig broken = VideoWriterConfig(folder.path() / "broken", "h264");
  {
    LeRobotWriter writer(broken, VideoSpecOf());
    writer.BeginEpisode({.n_steps = 5, .task = "look"});
    for (int step = 0; step < 5; ++step) AppendWithVideo(writer, step);
    writer.BeginEpisode({.n_steps = 1, .task = "look"});
    AppendWithVideo(writer, 5);
    writer.BeginEpisode({.n_steps = 6, .task = "look"});
    AppendWithVideo(writer, 6);
  }
  LeRobotWriter writer(broken, VideoSpecOf());
  EXPECT_EQ(writer.n_episodes(), 2);
  WriteVideo(writer);
  const LeRobotWriterConfig whole = VideoWriterConfig(folder.path() / "whole", "h264");
  WriteVideo(whole);
  for (const char* const file : {"videos/observation.images.rgb/chunk-000/file-000.mp4",
                                 "meta/episodes/chunk-000/file-000.parquet", "meta/info.json"}) {
    EXPECT_EQ(ReadText(broken.path / file), ReadText(whole.path / file)) << file;
  }
}

TEST(LeRobotVideo, AnUnfinishedDataSetIsNotContinuedWithAnotherCodec) {
  const core::TemporaryFolder folder;
  { const LeRobotWriter writer(VideoWriterConfig(folder.path() / "data", "h264"), VideoSpecOf()); }
  EXPECT_THAT(
      MessageOf(
          ErrorCode::kUsage,
          [&] { LeRobotWriter(VideoWriterConfig(folder.path() / "data", "png"), VideoSpecOf()); }),
      HasSubstr("other features"));
}

TEST(LeRobotVideo, FilesRollOverAtTheirSize) {
  const core::TemporaryFolder folder;
  LeRobotWriterConfig config = VideoWriterConfig(folder.path() / "data", "hevc");
  config.video_file_mb = 0.001;
  WriteVideo(config);
  EXPECT_TRUE(fs::exists(config.path / "videos/observation.images.rgb/chunk-000/file-002.mp4"));
  ExpectVideo(config.path);
}

TEST(LeRobotVideo, OddSizesAreRefusedBeforeAnythingIsWritten) {
  const core::TemporaryFolder folder;
  EXPECT_THAT(MessageOf(ErrorCode::kShape,
                        [&] {
                          LeRobotWriter(VideoWriterConfig(folder.path() / "data", "av1"),
                                        VideoSpecOf(kWidth + 1));
                        }),
              AllOf(HasSubstr("observation.images.rgb"), HasSubstr("33 x 24")));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

// A conversion of LeRobot datasets, as `dp_bench dataset` does it. `keys`: as of --keys.
LeRobotWriterConfig CopyConfig(const fs::path& path, const std::vector<fs::path>& sources,
                               const reader::KeyConfigs& keys = {}) {
  LeRobotWriterConfig config = {.path = path, .source = "a test", .features = {}};
  for (const fs::path& source : sources) {
    const LeRobotDataset dataset({.path = source, .keys = keys});
    SourceFolder folder = {.path = source, .features = {}};
    for (std::size_t i = 0; i < dataset.spec().keys.size(); ++i) {
      folder.features[dataset.spec().keys[i].name] = dataset.FeatureName(static_cast<int>(i));
    }
    for (std::int64_t i = 0; i < std::ssize(dataset.episode_ends()); ++i) {
      config.recorded.folder_of.push_back(std::ssize(config.recorded.folders));
      config.recorded.episode_of.push_back(i);
    }
    config.recorded.folders.push_back(folder);
  }
  const LeRobotDataset first({.path = sources[0], .keys = keys});
  for (const auto& [key, feature] : config.recorded.folders[0].features) {
    config.features.push_back(
        {.name = feature, .keys = {key}, .channels = first.ChannelNames(first.KeyIndex(key))});
  }
  return config;
}

void AppendStepOf(const Dataset& dataset, std::int64_t step, DatasetWriter& writer) {
  std::vector<std::vector<std::byte>> values;
  for (const KeySpec& key : dataset.spec().keys) {
    values.push_back(ReadSteps(dataset, key.name, step, step + 1));
  }
  writer.Append(std::vector<std::span<const std::byte>>(values.begin(), values.end()));
}

// A writer of a conversion that has not begun.
LeRobotWriter WriterOf(const LeRobotWriterConfig& config, const reader::KeyConfigs& keys = {}) {
  const LeRobotDataset first({.path = config.recorded.folders[0].path, .keys = keys});
  return {config, first.spec()};
}

std::string RefusalOfCopy(const LeRobotWriterConfig& config, const reader::KeyConfigs& keys = {},
                          ErrorCode code = ErrorCode::kUsage) {
  return MessageOf(code, [&] { WriterOf(config, keys); });
}

void Convert(const LeRobotWriterConfig& config, const reader::KeyConfigs& keys = {}) {
  LeRobotWriter writer = WriterOf(config, keys);
  for (const SourceFolder& folder : config.recorded.folders) {
    const LeRobotDataset dataset({.path = folder.path, .keys = keys});
    std::int64_t begin = 0;
    for (std::size_t episode = 0; episode < dataset.episode_ends().size(); ++episode) {
      const std::int64_t end = dataset.episode_ends()[episode];
      writer.BeginEpisode({.n_steps = end - begin, .task = "look"});
      for (; begin < end; ++begin) AppendStepOf(dataset, begin, writer);
    }
  }
  writer.Finish();
}

// Every key of both, bit for bit.
void ExpectEqualSteps(const fs::path& found, const fs::path& wanted) {
  const LeRobotDataset a({.path = found});
  const LeRobotDataset b({.path = wanted});
  ASSERT_EQ(a.spec().keys, b.spec().keys);
  for (const KeySpec& key : a.spec().keys) {
    EXPECT_EQ(ReadAll(a, key.name), ReadAll(b, key.name)) << key.name;
  }
}

class CopiedDataSets : public ::testing::TestWithParam<const char*> {};

TEST_P(CopiedDataSets, KeepFramesEntriesAndOtherColumnsThroughBothVersions) {
  const core::TemporaryFolder folder;
  const fs::path source = SmallFolder(GetParam());
  LeRobotWriterConfig older = CopyConfig(folder.path() / "v21", {source});
  older.version = Version::kV21;
  Convert(older);
  Convert(CopyConfig(folder.path() / "v30", {older.path}));
  ExpectEqualSteps(older.path, source);
  ExpectEqualSteps(folder.path() / "v30", source);
  const nlohmann::json wanted = InfoOf(source)["features"];
  for (const char* const version : {"v21", "v30"}) {
    const nlohmann::json found = InfoOf(folder.path() / version)["features"];
    for (const auto& [name, entry] : wanted.items()) {
      EXPECT_EQ(found.at(name).at("dtype"), entry.at("dtype")) << name;
      EXPECT_EQ(found.at(name).at("shape"), entry.at("shape")) << name;
      EXPECT_EQ(found.at(name).at("names"), entry.at("names")) << name;
      EXPECT_EQ(found.at(name).value("info", nlohmann::json()),
                entry.value("info", nlohmann::json()))
          << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CopiedDataSets,
                         ::testing::Values("v30_av1", "v30_h264", "v30_hevc", "v21_av1"),
                         [](const auto& name) { return std::string(name.param); });

void SetNames(const testing::CopiedFolder& folder, const char* feature, const char* names) {
  nlohmann::json info = InfoOf(folder.path());
  info["features"][feature]["names"] = nlohmann::json::parse(names);
  testing::WriteText(folder.path() / "meta/info.json", info.dump());
}

// Also names that are not understood.
TEST(LeRobotVideo, CopiesKeepTheNamesAsTheyWere) {
  for (const char* const names :
       {R"({"left": ["x"], "right": ["x"]})", R"(["xy"])", R"([["y", "x"]])", "null"}) {
    const core::TemporaryFolder folder;
    const testing::CopiedFolder source("v30_h264");
    SetNames(source, "action", names);
    LeRobotWriterConfig config = CopyConfig(folder.path() / "data", {source.path()});
    Convert(config);
    EXPECT_EQ(InfoOf(config.path)["features"]["action"]["names"], nlohmann::json::parse(names));
  }
}

// A column of integers is copied as it is, but not if its key has another order.
TEST(LeRobotVideo, CopiesHaveTheirChannelsInTheOrderOfTheKey) {
  const core::TemporaryFolder folder;
  const testing::CopiedFolder source("v30_av1");
  SetNames(source, "observation.counts", R"(["y", "x"])");
  const reader::KeyConfigs keys = {{"action", {}}, {"counts", {.names = {"x", "y"}}}};
  const LeRobotWriterConfig config = CopyConfig(folder.path() / "data", {source.path()}, keys);
  Convert(config, keys);
  const LeRobotDataset wanted({.path = source.path(), .keys = keys});
  const LeRobotDataset copy({.path = config.path});
  EXPECT_THAT(copy.ChannelNames(copy.KeyIndex("counts")), ElementsAre("x", "y"));
  EXPECT_EQ(ReadAll<float>(copy, "counts"), ReadAll<float>(wanted, "counts"));
}

// Rows at other times have the images nearest to them, which are not the frames in their order.
TEST(LeRobotVideo, RowsAtOtherTimesHaveTheNearestImagesAndCannotBeCopied) {
  const testing::CopiedFolder moved("v30_h264");
  moved.Replace("meta/info.json", "\"fps\": 7,\n    \"features\"",
                "\"fps\": 14,\n    \"features\"");
  const LeRobotConfig config = {.path = moved.path(), .row_tolerance_s = 1.0};
  EXPECT_EQ(ReadAll<std::uint8_t>(LeRobotDataset(config), "top"),
            ReadAll<std::uint8_t>(LeRobotDataset({.path = SmallFolder("v30_h264")}), "top"));
  const core::TemporaryFolder folder;
  LeRobotWriterConfig copy = CopyConfig(folder.path() / "data", {SmallFolder("v30_h264")});
  copy.recorded.folders[0].path = moved.path();
  EXPECT_THAT(
      MessageOf(ErrorCode::kUsage, [&] { LeRobotWriter(copy, LeRobotDataset(config).spec()); }),
      HasSubstr("at other times than the frames"));
}

TEST(LeRobotVideo, ColumnsKeepTheirTypeAndValues) {
  const core::TemporaryFolder folder;
  const fs::path source = SmallFolder("v30_av1");
  Convert(CopyConfig(folder.path() / "data", {source}));
  const fs::path file = "data/chunk-000/file-000.parquet";
  ParquetFile found(folder.path() / "data" / file, kMaxBytes);
  ParquetFile wanted(source / file, kMaxBytes);
  for (const auto& [column, n] :
       std::vector<std::pair<std::string, int>>{{"next.done", 1}, {"observation.grid", 6}}) {
    EXPECT_EQ(found.TypeOf(column), wanted.TypeOf(column));
    EXPECT_EQ(found.ReadNumbers<double>(column, n), wanted.ReadNumbers<double>(column, n))
        << column;
  }
}

TEST(LeRobotVideo, StatisticsOfCopiesAreThoseBeforeEncoding) {
  const core::TemporaryFolder folder;
  const LeRobotWriterConfig video = VideoWriterConfig(folder.path() / "video", "h264");
  WriteVideo(video);
  LeRobotWriterConfig older = CopyConfig(folder.path() / "v21", {video.path});
  older.version = Version::kV21;
  Convert(older);
  Convert(CopyConfig(folder.path() / "v30", {older.path}));
  EXPECT_EQ(ReadText(folder.path() / "v30/meta/stats.json"),
            ReadText(video.path / "meta/stats.json"));
}

TEST(LeRobotVideo, ColumnsLoseTheFramesThatAreLeftOut) {
  const core::TemporaryFolder folder;
  LeRobotWriterConfig config = CopyConfig(folder.path() / "data", {SmallFolder("v30_av1")});
  config.codec = "png";
  config.recorded.episode_of = {1};  // 9 steps
  config.recorded.folder_of = {0};
  config.recorded.drop_first = 7;
  const LeRobotDataset source({.path = SmallFolder("v30_av1")});
  LeRobotWriter writer(config, source.spec());
  writer.BeginEpisode({.n_steps = 2, .task = "look"});
  for (const std::int64_t step : {19, 20}) AppendStepOf(source, step, writer);
  writer.Finish();
  ParquetFile file(config.path / "data/chunk-000/file-000.parquet", kMaxBytes);
  EXPECT_THAT(file.ReadNumbers<std::int64_t>("next.done"), ElementsAre(0, 1));
  const auto grid = file.ReadNumbers<double>("observation.grid", 6);
  const auto read = ReadAll<float>(source, "grid");
  for (std::size_t i = 0; i < grid.size(); ++i) {
    EXPECT_EQ(static_cast<float>(grid[i]), read[19 * 6 + i]);
  }
}

TEST(LeRobotVideo, StatisticsThatAreNotCompleteAreComputedAgain) {
  const core::TemporaryFolder folder;
  const testing::CopiedFolder source("v21_av1");  // of LeRobot 0.3, without quantiles
  const LeRobotWriterConfig config = CopyConfig(folder.path() / "data", {source.path()});
  Convert(config);
  LeRobotWriterConfig png = CopyConfig(folder.path() / "png", {source.path()});
  png.codec = "png";
  Convert(png);
  EXPECT_EQ(ReadText(config.path / "meta/stats.json"), ReadText(png.path / "meta/stats.json"));
  EXPECT_THAT(WriterOf(CopyConfig(folder.path() / "again", {source.path()})).Notes(),
              Contains(HasSubstr("statistics of its decoded images")));
}

TEST(LeRobotVideo, EpisodesOfSeveralFilesAreJoined) {
  const core::TemporaryFolder folder;
  const fs::path source = SmallFolder("v30_h264");  // one episode per file
  Convert(CopyConfig(folder.path() / "data", {source, source}));
  const fs::path videos = folder.path() / "data/videos/observation.images.top/chunk-000";
  EXPECT_TRUE(fs::exists(videos / "file-000.mp4"));
  EXPECT_FALSE(fs::exists(videos / "file-001.mp4"));
  const LeRobotDataset twice({.path = folder.path() / "data"});
  const auto images = ReadAll<std::uint8_t>(twice, "top");
  const auto once = ReadAll<std::uint8_t>(LeRobotDataset({.path = source}), "top");
  EXPECT_TRUE(std::equal(once.begin(), once.end(), images.begin()));
  EXPECT_TRUE(std::equal(once.begin(), once.end(), images.begin() + std::ssize(once)));
}

TEST(LeRobotVideo, VideosThatCannotBeCopiedAreRefusedUnlessTheyMayBeEncoded) {
  const core::TemporaryFolder folder;
  const fs::path h264 = SmallFolder("v30_h264");
  LeRobotWriterConfig merged = CopyConfig(folder.path() / "a", {h264, SmallFolder("v30_hevc")});
  EXPECT_THAT(RefusalOfCopy(merged),
              AllOf(HasSubstr("is hevc"), HasSubstr("is h264"), HasSubstr("--param codec=av1")));
  LeRobotWriterConfig trimmed = CopyConfig(folder.path() / "b", {h264});
  trimmed.recorded.drop_first = 1;
  EXPECT_THAT(RefusalOfCopy(trimmed), HasSubstr("left out"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
  for (LeRobotWriterConfig* config : {&merged, &trimmed}) {
    config->codec = "png";
    EXPECT_THAT(WriterOf(*config).Notes(),
                Contains(HasSubstr("PNG, lossless, of the decoded video")));
  }
  trimmed.path = folder.path() / "c";
  trimmed.codec = "h264";
  EXPECT_THAT(WriterOf(trimmed).Notes(), Contains(HasSubstr("encoded again with loss")));
}

TEST(LeRobotVideo, DepthOfAnotherScaleCannotBeCopied) {
  const fs::path first = SmallFolder("v30_av1");
  const reader::KeyConfigs keys = {{"action", {}}, {"depth", {}}};
  for (const auto& [from, to] :
       {std::pair{R"("video.depth_max": 10.0)", R"("video.depth_max": 5.0)"},
        std::pair{R"("depth_unit": "mm")", R"("depth_unit": "m")"}}) {
    const core::TemporaryFolder folder;
    const testing::CopiedFolder second("v30_av1");
    second.Replace("meta/info.json", from, to);
    const LeRobotWriterConfig config =
        CopyConfig(folder.path() / "data", {first, second.path()}, keys);
    EXPECT_THAT(RefusalOfCopy(config, keys),
                AllOf(HasSubstr(second.path().string()), HasSubstr("another scale of depth")));
  }
}

TEST(LeRobotVideo, ColourThatIsReadAsDepthCannotBeCopied) {
  const core::TemporaryFolder folder;
  const fs::path source = SmallFolder("v30_h264");
  const reader::KeyConfigs keys = {{"action", {}},
                                   {"top", {.type = KeyType::kDepth, .mm_per_level = 5.0}}};
  LeRobotWriterConfig config = CopyConfig(folder.path() / "data", {source}, keys);
  EXPECT_THAT(RefusalOfCopy(config, keys), HasSubstr("they are colour, which is read as depth"));
  config.codec = "png";
  EXPECT_THAT(WriterOf(config, keys).Notes(),
              Contains(HasSubstr("PNG, lossless, of the decoded video")));
}

TEST(LeRobotVideo, ColumnsWithChannelsInAnotherOrderAreLeftOut) {
  const core::TemporaryFolder folder;
  const testing::CopiedFolder first("v30_av1");
  const testing::CopiedFolder second("v30_av1");
  SetNames(first, "observation.counts", R"(["x", "y"])");
  SetNames(second, "observation.counts", R"(["y", "x"])");
  const reader::KeyConfigs keys = {{"action", {}}};
  const LeRobotWriterConfig config =
      CopyConfig(folder.path() / "data", {first.path(), second.path()}, keys);
  EXPECT_THAT(WriterOf(config, keys).Notes(),
              Contains(AllOf(HasSubstr("observation.counts: left out"),
                             HasSubstr("another order in " + second.path().string()))));
}

TEST(LeRobotVideo, ColumnsThatNotAllSourcesHaveAreNamed) {
  const core::TemporaryFolder folder;
  const testing::CopiedFolder other("v30_av1");
  other.Replace("meta/info.json", "next.done", "next.over");
  const LeRobotWriterConfig config =
      CopyConfig(folder.path() / "data", {SmallFolder("v30_av1"), other.path()});
  EXPECT_THAT(WriterOf(config).Notes(),
              Contains(AllOf(HasSubstr("next.done: left out"), HasSubstr("does not have it"))));
}

TEST(LeRobotVideo, OnlyKeysThatWereAskedForAndWhatCanBeNoneAreCopied) {
  const core::TemporaryFolder folder;
  LeRobotWriterConfig config = CopyConfig(folder.path() / "data", {SmallFolder("v30_av1")});
  config.recorded.only_keys = true;
  config.recorded.folders[0].features.erase("counts");
  std::erase_if(config.features, [](const FeatureConfig& feature) {
    return feature.keys == std::vector<std::string>{"counts"};
  });
  DatasetSpec spec = LeRobotDataset({.path = config.recorded.folders[0].path}).spec();
  std::erase_if(spec.keys, [](const KeySpec& key) { return key.name == "counts"; });
  const LeRobotWriter writer(config, spec);
  EXPECT_THAT(writer.Notes(), Contains(HasSubstr("counts: left out: it is not among the keys")));
  EXPECT_THAT(writer.Notes(), Contains(HasSubstr("next.done: copied")));
}

TEST(LeRobotVideo, ADamagedSourceIsNamed) {
  const core::TemporaryFolder folder;
  const testing::CopiedFolder source("v30_hevc");
  const fs::path video = source.path() / "videos/observation.images.top/chunk-000/file-000.mp4";
  LeRobotWriterConfig config = CopyConfig(folder.path() / "data", {source.path()});
  config.recorded.episode_of = {0, 1, 9};
  EXPECT_THAT(RefusalOfCopy(config, {}, ErrorCode::kConfig), HasSubstr("expected 0 to 2, found 9"));
  config.recorded.episode_of = {0, 1, 2};
  testing::WriteText(video, ReadText(video).substr(0, 100));
  EXPECT_THAT(RefusalOfCopy(config, {}, ErrorCode::kMedia), HasSubstr("file-000.mp4"));
}

}  // namespace
}  // namespace dp_bench::lerobot
