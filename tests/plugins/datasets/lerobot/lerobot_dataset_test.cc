// Keys, channels, tasks, memory and threads.
#include "lerobot_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "small_lerobot.h"
#include "support/error_of.h"

namespace dp_bench::lerobot::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> KeyNames(const Dataset& dataset) {
  std::vector<std::string> names;
  for (const KeySpec& key : dataset.spec().keys) names.push_back(key.name);
  return names;
}

LeRobotConfig ActionAnd(const std::string& folder, const std::string& name, reader::KeyConfig key) {
  LeRobotConfig config{.path = SmallFolder(folder)};
  config.keys["action"] = {.source = "action"};
  config.keys[name] = std::move(key);
  return config;
}

std::string Refusal(const LeRobotConfig& config) {
  return MessageOf(ErrorCode::kConfig, [&] { const LeRobotDataset dataset(config); });
}

TEST(LeRobot, WithoutKeysEveryFeatureIsAKeyUnderItsShortName) {
  const LeRobotDataset dataset({.path = SmallFolder("v30_av1")});
  EXPECT_THAT(KeyNames(dataset),
              ElementsAre("action", "counts", "depth", "grid", "state", "top", "wrist"));
  EXPECT_EQ(SpecOf(dataset, "grid").shape, (Shape{2, 3}));
  EXPECT_EQ(SpecOf(dataset, "top").shape, (Shape{3, 24, 32}));
  EXPECT_EQ(SpecOf(dataset, "wrist").shape, (Shape{3, 24, 32})) << "stored as [C, H, W]";
  EXPECT_EQ(SpecOf(dataset, "depth").type, KeyType::kDepth);
  EXPECT_EQ(SpecOf(dataset, "depth").dtype, DType::kUInt16);
}

TEST(LeRobot, FeaturesThatHoldNoNumbersAreLeftOutWithAWarning) {
  const CopiedFolder folder("v30_av1");
  folder.Replace("meta/info.json", "\"observation.counts\": {\n            \"dtype\": \"int64\"",
                 "\"observation.counts\": {\n            \"dtype\": \"string\"");
  ::testing::internal::CaptureStderr();
  const LeRobotDataset dataset({.path = folder.path()});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("hold neither numbers nor images: observation.counts"));
  EXPECT_THAT(KeyNames(dataset), ElementsAre("action", "depth", "grid", "state", "top", "wrist"));
}

TEST(LeRobot, NamesChooseAndOrderChannels) {
  LeRobotConfig config{.path = SmallFolder("v21_av1")};
  config.keys["action"] = {.source = "action", .names = {"y", "x"}};
  config.keys["arm"] = {.source = "observation.state", .names = {"gripper", "shoulder"}};
  config.keys["last"] = {.source = "observation.state", .begin = 2};
  config.keys["whole"] = {.source = "observation.state"};
  const LeRobotDataset dataset(config);
  const std::vector<float> whole = ReadAll<float>(dataset, "whole");
  const std::vector<float> arm = ReadAll<float>(dataset, "arm");
  const std::vector<float> last = ReadAll<float>(dataset, "last");
  EXPECT_EQ(SpecOf(dataset, "arm").shape, (Shape{2}));
  for (std::size_t step = 0; step < last.size(); ++step) {
    EXPECT_EQ(arm[2 * step], whole[3 * step + 2]);
    EXPECT_EQ(arm[2 * step + 1], whole[3 * step]);
    EXPECT_EQ(last[step], whole[3 * step + 2]);
  }
}

TEST(LeRobot, AKeyWithoutAFeatureIsTheOneOfThatName) {
  LeRobotConfig config{.path = SmallFolder("v30_av1")};
  config.keys = {{"action", {}}, {"state", {.begin = 2}}, {"top", {}}};
  const LeRobotDataset dataset(config);
  EXPECT_THAT(KeyNames(dataset), ElementsAre("action", "state", "top"));
  EXPECT_EQ(dataset.FeatureName(1), "observation.state");
  EXPECT_EQ(SpecOf(dataset, "state").shape, (Shape{1}));
  EXPECT_EQ(SpecOf(dataset, "top").type, KeyType::kRgb);
  EXPECT_THAT(Refusal(ActionAnd("v30_av1", "tip", {})),
              AllOf(HasSubstr("no key of this name"), HasSubstr("top, wrist")));
}

TEST(LeRobot, AnUnknownChannelOrFeatureListsWhatThereIs) {
  EXPECT_THAT(Refusal(ActionAnd("v30_h264", "a", {.source = "observation.stat"})),
              AllOf(HasSubstr("no feature 'observation.stat'"), HasSubstr("observation.state")));
  EXPECT_THAT(Refusal(ActionAnd("v30_h264", "a", {.source = "action", .names = {"z"}})),
              AllOf(HasSubstr("no channel 'z'"), HasSubstr("x, y")));
  EXPECT_THAT(Refusal(ActionAnd("v30_h264", "a", {.source = "action", .begin = 1, .end = 3})),
              HasSubstr("elements 1 to 3 are no part of its 2"));
}

TEST(LeRobot, TasksSelectEpisodesByTheirText) {
  const LeRobotDataset all({.path = SmallFolder("v30_av1")});
  const LeRobotDataset pushed({.path = SmallFolder("v30_av1"), .tasks = {"push the block"}});
  EXPECT_THAT(pushed.episode_ends(), ElementsAre(12, 24));
  const std::vector<float> state = ReadAll<float>(all, "state");
  std::vector<float> wanted(state.begin(), state.begin() + 12 * 3);
  wanted.insert(wanted.end(), state.begin() + 21 * 3, state.end());
  EXPECT_EQ(ReadAll<float>(pushed, "state"), wanted);
  const std::vector<std::uint8_t> top = ReadAll<std::uint8_t>(all, "top");
  const std::vector<std::uint8_t> top_of_pushed = ReadAll<std::uint8_t>(pushed, "top");
  EXPECT_TRUE(
      std::equal(top_of_pushed.begin() + 12 * 2304, top_of_pushed.end(), top.begin() + 21 * 2304));
  EXPECT_THAT(Refusal({.path = SmallFolder("v30_av1"), .tasks = {"fly"}}),
              AllOf(HasSubstr("no task 'fly'"), HasSubstr("push the block; lift the tray")));
}

TEST(LeRobot, ASmallLimitKeepsFewImagesAndReadsTheSame) {
  for (const char* name : {"v30_av1", "v30_images"}) {
    LeRobotConfig small{.path = SmallFolder(name)};
    small.memory_limit_mb = name == std::string("v30_av1") ? 2.5 : 13.0;
    const LeRobotDataset large({.path = SmallFolder(name)});
    const LeRobotDataset tight(small);
    for (const KeySpec& key : large.spec().keys) {
      if (key.type == KeyType::kRgb) {
        EXPECT_EQ(ReadAll<std::uint8_t>(tight, key.name), ReadAll<std::uint8_t>(large, key.name));
      }
    }
  }
}

TEST(LeRobot, ALimitThatHoldsNoImageSaysWhatIsNeeded) {
  LeRobotConfig config{.path = SmallFolder("v30_av1")};
  config.memory_limit_mb = 1.0;
  EXPECT_THAT(Refusal(config), AllOf(HasSubstr("memory_limit_mb is 1"), HasSubstr("or more")));
}

// `wanted`: of all steps.
void ExpectImage(const char* name, const Dataset& dataset, const std::string& camera,
                 std::int64_t step, const std::vector<std::uint8_t>& wanted) {
  const auto image = ReadSteps<std::uint8_t>(dataset, camera, step, step + 1);
  EXPECT_TRUE(std::equal(image.begin(), image.end(), wanted.begin() + step * std::ssize(image)))
      << name << ", step " << step;
}

// Random access from several threads: files are opened, jumped in and closed.
TEST(LeRobot, ThreadsThatJumpReadTheSameImages) {
  for (const char* name : {"v30_av1", "v30_h264", "v30_hevc", "v30_images", "v21_av1"}) {
    LeRobotConfig config{.path = SmallFolder(name)};
    const LeRobotDataset whole(config);
    const std::string camera = name == std::string("v30_images") ? "image" : "top";
    const std::vector<std::uint8_t> wanted = ReadAll<std::uint8_t>(whole, camera);
    const LeRobotDataset dataset(config);
    std::vector<std::jthread> threads;
    for (std::int64_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        for (std::int64_t i = 0; i < 33; ++i) {  // 10 and 33 have no common factor
          ExpectImage(name, dataset, camera, (i * 10 + thread * 7) % 33, wanted);
        }
      });
    }
  }
}

// LeRobot compares times after it has chosen the nearest frame.
TEST(LeRobot, ALargeToleranceGivesTheSameImages) {
  for (const char* name : {"v30_av1", "v30_h264", "v30_hevc", "v21_av1"}) {
    const LeRobotDataset exact({.path = SmallFolder(name)});
    const std::vector<std::uint8_t> wanted = ReadAll<std::uint8_t>(exact, "top");
    const LeRobotDataset loose({.path = SmallFolder(name), .tolerance_s = 1.0});
    for (std::int64_t i = 0; i < 66; ++i) ExpectImage(name, loose, "top", i * 10 % 33, wanted);
    EXPECT_EQ(ReadAll<std::uint8_t>(loose, "top"), wanted) << name;
  }
}

TEST(LeRobot, EightBitDepthNeedsItsScale) {
  // a colour video, as recordings of Kuavo robots store depth
  EXPECT_THAT(Refusal(ActionAnd("v30_h264", "depth",
                                {.source = "observation.images.top", .type = KeyType::kDepth})),
              HasSubstr("give mm_per_level"));
  const LeRobotDataset dataset(ActionAnd(
      "v30_h264", "depth",
      {.source = "observation.images.top", .type = KeyType::kDepth, .mm_per_level = 10.0}));
  const LeRobotDataset colours({.path = SmallFolder("v30_h264")});
  const std::vector<std::uint8_t> rgb = ReadAll<std::uint8_t>(colours, "top");
  const std::vector<std::uint16_t> depth = ReadAll<std::uint16_t>(dataset, "depth");
  ASSERT_EQ(depth.size() * 3, rgb.size());
  for (std::size_t i = 0; i < depth.size(); ++i) {
    const double mean = (rgb[3 * i] + rgb[3 * i + 1] + rgb[3 * i + 2]) / 3.0;
    ASSERT_NEAR(depth[i], 10.0 * mean, 0.6) << i;
  }
}

TEST(LeRobot, KeysThatDoNotFitAreRefused) {
  const std::string top = "observation.images.top";
  EXPECT_THAT(Refusal(ActionAnd("v30_h264", "top", {.source = top, .begin = 0})),
              HasSubstr("names, begin, end and shape are for numbers"));
  EXPECT_THAT(
      Refusal(ActionAnd("v30_h264", "state", {.source = "observation.state", .shape = {2, 2}})),
      HasSubstr("numbers do not have the shape [2, 2]"));
  EXPECT_THAT(Refusal(ActionAnd("v30_h264", "top", {.source = top, .mm_per_level = 1.0})),
              HasSubstr("mm_per_level is for depth"));
  EXPECT_THAT(Refusal(ActionAnd("v30_h264", "a", {.source = "action", .type = KeyType::kDepth})),
              HasSubstr("are for images"));
  EXPECT_THAT(
      Refusal(ActionAnd("v30_av1", "d", {.source = "observation.depth", .type = KeyType::kRgb})),
      HasSubstr("has one channel"));
  EXPECT_THAT(
      Refusal(ActionAnd("v30_av1", "d", {.source = "observation.depth", .mm_per_level = 1.0})),
      HasSubstr("has its own scale"));
  LeRobotConfig config{.path = SmallFolder("v30_h264")};
  config.keys["action"] = {.source = top};
  EXPECT_THAT(Refusal(config), HasSubstr("the action is a list of numbers"));
}

TEST(LeRobot, ReadsItsParams) {
  const Config params = Config::FromJson(R"({"path": ")" + SmallFolder("v30_av1").string() +
                                         R"(", "tasks": ["lift the tray"], "tolerance_s": 0.001,
      "row_tolerance_s": 0.002,
      "memory_limit_mb": 64, "keys": {
        "action": {"feature": "action", "names": ["x", "y"]},
        "grip": {"feature": "observation.state", "begin": 2, "end": 3},
        "far": {"feature": "observation.depth", "type": "depth"}}})");
  const auto dataset = LeRobotDataset::Create(params);
  params.RejectUnread();
  EXPECT_THAT(KeyNames(*dataset), ElementsAre("action", "far", "grip"));
  EXPECT_THAT(dataset->episode_ends(), ElementsAre(9));
  EXPECT_THAT(MessageOf(ErrorCode::kConfig,
                        [&] {
                          LeRobotDataset::Create(Config::FromJson(
                              R"({"path": "x", "keys": {"a": {"feature": "b"}}})"));
                        }),
              HasSubstr("needs the key 'action'"));
}

}  // namespace
}  // namespace dp_bench::lerobot::testing
