// LeRobot datasets that are written: what is read back, what a kill leaves, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/temporary_folder.h"
#include "data/lerobot/writer.h"
#include "small_lerobot.h"
#include "support/error_of.h"
#include "support/three_episodes.h"

namespace dp_bench::lerobot {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

DatasetSpec WrittenSpec() {
  return {
      .keys =
          {{.name = "action", .shape = {2}},
           {.name = "agent", .shape = {3}},
           {.name = "depth", .type = KeyType::kDepth, .shape = {1, 5, 7}, .dtype = DType::kUInt16},
           {.name = "keypoints", .shape = {2, 2}},
           {.name = "rgb", .type = KeyType::kRgb, .shape = {3, 5, 7}, .dtype = DType::kUInt8},
           {.name = "speed", .shape = {1}}},
      .fps = 12.5};
}

LeRobotWriterConfig WriterConfig(const fs::path& path, Version version = Version::kV30) {
  return {
      .path = path,
      .source = "a test",
      .version = version,
      .robot_type = "toy",
      .features = {{.name = "action", .keys = {"action"}, .channels = {"x", "y"}},
                   {.name = "observation.depth", .keys = {"depth"}, .channels = {}},
                   {.name = "observation.images.rgb", .keys = {"rgb"}, .channels = {}},
                   {.name = "observation.speed", .keys = {"speed"}, .channels = {}},
                   {.name = "observation.state", .keys = {"keypoints", "agent"}, .channels = {}}}};
}

void WriteRest(DatasetWriter& writer) {
  AppendEpisodes(writer, WrittenSpec());
  writer.Finish();
}

void WriteAll(const LeRobotWriterConfig& config) {
  LeRobotWriter writer(config, WrittenSpec());
  WriteRest(writer);
}

std::string RefusalOfWriter(const LeRobotWriterConfig& config, ErrorCode code = ErrorCode::kUsage,
                            const DatasetSpec& spec = WrittenSpec()) {
  return MessageOf(code, [&] { LeRobotWriter(config, spec); });
}

class LeRobotVersions : public ::testing::TestWithParam<Version> {};

TEST_P(LeRobotVersions, AreReadBackBitForBit) {
  const core::TemporaryFolder folder;
  const fs::path path = folder.path() / "data";
  WriteAll(WriterConfig(path, GetParam()));
  const LeRobotDataset dataset({.path = path});
  ExpectThreeEpisodes(dataset, WrittenSpec());
  EXPECT_EQ(dataset.Task(0), "lift");
  EXPECT_EQ(dataset.Task(1), "push");
  EXPECT_EQ(dataset.FeatureName(dataset.KeyIndex("agent")), "observation.state");
  EXPECT_THAT(dataset.ChannelNames(dataset.KeyIndex("agent")),
              ::testing::ElementsAre("agent.0", "agent.1", "agent.2"));
  EXPECT_THAT(dataset.ChannelNames(dataset.KeyIndex("action")), ::testing::ElementsAre("x", "y"));
  EXPECT_FALSE(fs::exists(path.string() + ".unfinished"));
}

INSTANTIATE_TEST_SUITE_P(Versions, LeRobotVersions, ::testing::Values(Version::kV21, Version::kV30),
                         [](const auto& version) {
                           return version.param == Version::kV21 ? "V21" : "V30";
                         });

TEST(LeRobotWriter, AnotherWriterContinuesAfterTheLastCompleteEpisode) {
  const core::TemporaryFolder folder;
  const fs::path path = folder.path() / "data";
  {
    LeRobotWriter writer(WriterConfig(path), WrittenSpec());
    writer.BeginEpisode({.n_steps = 3, .task = "lift"});
    for (int step = 0; step < 3; ++step) AppendStep(writer, WrittenSpec(), step);
    writer.BeginEpisode({.n_steps = 2, .task = "push"});
    AppendStep(writer, WrittenSpec(), 3);
    EXPECT_FALSE(fs::exists(path));
  }
  LeRobotWriter writer(WriterConfig(path), WrittenSpec());
  EXPECT_EQ(writer.n_episodes(), 1);
  WriteRest(writer);
  ExpectThreeEpisodes(LeRobotDataset({.path = path}), WrittenSpec());

  const fs::path unbroken = folder.path() / "unbroken";
  WriteAll(WriterConfig(unbroken));
  for (const char* const file :
       {"data/chunk-000/file-000.parquet", "meta/episodes/chunk-000/file-000.parquet",
        "meta/info.json", "meta/stats.json", "meta/tasks.parquet"}) {
    EXPECT_EQ(testing::ReadText(path / file), testing::ReadText(unbroken / file)) << file;
  }
}

// A copy of the three episodes at `from`, of which the last is read from `last`.
std::vector<std::string> Copy(const fs::path& from, const fs::path& last, const fs::path& to) {
  LeRobotWriterConfig config = WriterConfig(to);
  config.robot_type.reset();
  std::map<std::string, std::string> features;
  for (const FeatureConfig& feature : config.features) {
    for (const std::string& key : feature.keys) features[key] = feature.name;
  }
  config.recorded = {
      .folders = {{.path = from, .features = features}, {.path = last, .features = features}},
      .folder_of = {0, 0, 1},
      .episode_of = {0, 1, 2}};
  LeRobotWriter writer(config, WrittenSpec());
  WriteRest(writer);
  return writer.Notes();
}

TEST(LeRobotWriter, CopiesKeepTheTypeOfTheRobotIfAllSourcesAgree) {
  const core::TemporaryFolder folder;
  LeRobotWriterConfig config = WriterConfig(folder.path() / "toy");
  for (const char* const robot : {"toy", "other"}) {
    config.path = folder.path() / robot;
    config.robot_type = robot;
    WriteAll(config);
  }
  const auto robot_in = [&](const char* name) {
    return nlohmann::json::parse(testing::ReadText(folder.path() / name / "meta/info.json"))
        .at("robot_type");
  };
  Copy(folder.path() / "toy", folder.path() / "toy", folder.path() / "same");
  EXPECT_EQ(robot_in("same"), "toy");
  const std::vector<std::string> notes =
      Copy(folder.path() / "toy", folder.path() / "other", folder.path() / "mixed");
  EXPECT_EQ(robot_in("mixed"), nullptr);
  EXPECT_THAT(notes, ::testing::Contains(
                         ::testing::AllOf(HasSubstr("robot_type: null, because it is \"toy\" in"),
                                          HasSubstr("but \"other\" in"))));
}

TEST(LeRobotWriter, FilesRollOverAtTheirSize) {
  const core::TemporaryFolder folder;
  LeRobotWriterConfig config = WriterConfig(folder.path() / "data");
  config.data_file_mb = 0.001;
  WriteAll(config);
  EXPECT_TRUE(fs::exists(config.path / "data/chunk-000/file-002.parquet"));
  ExpectThreeEpisodes(LeRobotDataset({.path = config.path}), WrittenSpec());
}

TEST(LeRobotWriter, OneWriterAtATime) {
  const core::TemporaryFolder folder;
  const LeRobotWriter writer(WriterConfig(folder.path() / "data"), WrittenSpec());
  RefusalOfWriter(WriterConfig(folder.path() / "data"));
}

TEST(LeRobotWriter, WhatExistsIsNotReplaced) {
  const core::TemporaryFolder folder;
  const LeRobotWriterConfig config = WriterConfig(folder.path() / "data");
  WriteAll(config);
  EXPECT_THAT(RefusalOfWriter(config), HasSubstr("exists"));
  ExpectThreeEpisodes(LeRobotDataset({.path = config.path}), WrittenSpec());
}

TEST(LeRobotWriter, AnotherSourceOrOtherKeysAreRefused) {
  const core::TemporaryFolder folder;
  LeRobotWriterConfig config = WriterConfig(folder.path() / "data");
  { const LeRobotWriter writer(config, WrittenSpec()); }
  LeRobotWriterConfig mapped = config;
  std::ranges::reverse(mapped.features.back().keys);  // the size of the feature is the same
  EXPECT_THAT(RefusalOfWriter(mapped), HasSubstr("other features"));
  config.source = "another test";
  EXPECT_THAT(RefusalOfWriter(config), HasSubstr("another source"));
}

TEST(LeRobotWriter, AnEmptyDataSetIsRefused) {
  const core::TemporaryFolder folder;
  LeRobotWriter writer(WriterConfig(folder.path() / "data"), WrittenSpec());
  MessageOf(ErrorCode::kUsage, [&] { writer.Finish(); });
  EXPECT_FALSE(fs::exists(folder.path() / "data"));
}

TEST(LeRobotWriter, DamagedNotesOnKeysAreNamed) {
  const core::TemporaryFolder folder;
  const fs::path path = folder.path() / "data";
  WriteAll(WriterConfig(path));
  const fs::path notes = path / "meta/dp_bench.json";
  for (const char* const text :
       {"", "{", "[]", "{}", R"({"keys": 5})", R"({"keys": ["action"]})",
        R"({"keys": {"action": 5}})", R"({"keys": {"action": {"featur": "action"}}})",
        R"({"keys": {"action": {"feature": "action", "begn": 1}}})",
        R"({"keys": {"action": {"feature": "action", "begin": 0, "end": 9}}})",
        R"({"keys": {"action": {"feature": "action", "shape": [4611686018427387904, 4]}}})"}) {
    testing::WriteText(notes, text);
    EXPECT_THROW(LeRobotDataset({.path = path}), Error) << text;
  }
}

// As a power cut may leave them.
TEST(LeRobotWriter, EpisodesWithShortFilesAreWrittenAgain) {
  const core::TemporaryFolder folder;
  const fs::path path = folder.path() / "data";
  const fs::path unfinished = path.string() + ".unfinished";
  for (const char* const file : {"data/episode_000000.parquet", "data/episode_000001.parquet",
                                 "episodes/episode_000000.json", "episodes/episode_000001.json"}) {
    {
      LeRobotWriter writer(WriterConfig(path), WrittenSpec());
      AppendEpisodes(writer, WrittenSpec());  // and no Finish
    }
    fs::resize_file(unfinished / file, 0);
    const bool is_first = std::string_view(file).find("000000") != std::string_view::npos;
    EXPECT_EQ(LeRobotWriter(WriterConfig(path), WrittenSpec()).n_episodes(), is_first ? 0 : 1)
        << file;
  }
  LeRobotWriter writer(WriterConfig(path), WrittenSpec());
  WriteRest(writer);
  ExpectThreeEpisodes(LeRobotDataset({.path = path}), WrittenSpec());
}

TEST(LeRobotWriter, DamagedNotesOnEpisodesAreNamed) {
  const core::TemporaryFolder folder;
  const fs::path path = folder.path() / "data";
  {
    LeRobotWriter writer(WriterConfig(path), WrittenSpec());
    writer.BeginEpisode({.n_steps = 1, .task = "lift"});
    AppendStep(writer, WrittenSpec(), 0);
  }
  const fs::path file = path.string() + ".unfinished/episodes/episode_000000.json";
  nlohmann::json notes = nlohmann::json::parse(testing::ReadText(file));
  notes["stats"]["action"].erase("max");  // the sizes still fit the files
  testing::WriteText(file, notes.dump());
  EXPECT_THAT(RefusalOfWriter(WriterConfig(path), ErrorCode::kData),
              ::testing::AllOf(HasSubstr("episode_000000.json: stats.action"), HasSubstr("max")));
}

// A config that does not fit the keys, and what the message says.
struct WrongFeatures {
  const char* name;
  void (*spoil)(std::vector<FeatureConfig>& features, DatasetSpec& spec);
  const char* message;
  ErrorCode code = ErrorCode::kConfig;
};

class WrongFeaturesTest : public ::testing::TestWithParam<WrongFeatures> {};

TEST_P(WrongFeaturesTest, AreRefusedBeforeAnythingIsWritten) {
  const core::TemporaryFolder folder;
  LeRobotWriterConfig config = WriterConfig(folder.path() / "data");
  DatasetSpec spec = WrittenSpec();
  GetParam().spoil(config.features, spec);
  EXPECT_THAT(RefusalOfWriter(config, GetParam().code, spec), HasSubstr(GetParam().message));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongFeaturesTest,
    ::testing::Values(
        WrongFeatures{"MissingKey", [](auto& features, auto&) { features.pop_back(); },
                      "expected one feature for the key 'agent', found 0"},
        WrongFeatures{"KeyTwice",
                      [](auto& features, auto&) {
                        features[3].keys = {"agent", "speed"};
                      },
                      "the key 'agent', found 2"},
        WrongFeatures{"UnknownKey", [](auto& features, auto&) { features[3].keys = {"sped"}; },
                      "there is no key 'sped'"},
        WrongFeatures{"TooFewNames", [](auto& features, auto&) { features[0].channels = {"x"}; },
                      "feature 'action': expected 2 names, found 1"},
        WrongFeatures{"TwoCameras",
                      [](auto& features, auto&) {
                        features[2].keys = {"rgb", "depth"};
                      },
                      "expected one key for a camera"},
        WrongFeatures{"DepthInMetres",
                      [](auto&, auto& spec) { spec.keys[2].dtype = DType::kFloat32; },
                      "key 'depth' is depth float32 [1, 5, 7]. To copy a dataset without it, name "
                      "the other keys: --keys",
                      ErrorCode::kShape}),
    [](const auto& wrong) { return std::string(wrong.param.name); });

}  // namespace
}  // namespace dp_bench::lerobot
