// The statistics of LeRobot datasets against LeRobot 0.6.1
// (tests/golden/generate/lerobot_statistics.py).
#include "data/lerobot/statistics.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/json.h"
#include "support/json_golden.h"

namespace dp_bench::lerobot {
namespace {

using nlohmann::json;

const json& StatisticsGolden() { return JsonGolden("lerobot_statistics"); }

// [n_frames, 3]
std::vector<double> ManyNumbers(int n_frames, int offset) {
  std::vector<double> values;
  for (int frame = 0; frame < n_frames; ++frame) {
    for (int channel = 0; channel < 3; ++channel) {
      values.push_back((frame * 37 + channel * 11 + offset) % 101 / 8.0 - channel);
    }
  }
  return values;
}

FeatureStatistics OfImages(int n_frames, int height, int width) {
  ImageSummary summary({.n_frames = n_frames,
                        .width = width,
                        .height = height,
                        .n_channels = 3,
                        .n_levels = 256,
                        .scale = 255.0});
  std::vector<std::uint8_t> pixels;
  for (int frame = 0; frame < n_frames; ++frame) {
    pixels.clear();
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        for (int channel = 0; channel < 3; ++channel) {
          pixels.push_back(
              static_cast<std::uint8_t>((x * 7 + y * 13 + channel * 29 + frame * 31) % 251));
        }
      }
    }
    summary.Add(std::span<const std::uint8_t>(pixels));
  }
  return summary.Finish();
}

void ExpectNear(const json& found, const json& wanted, const std::string& where) {
  ASSERT_EQ(found.is_array(), wanted.is_array()) << where;
  if (!wanted.is_array()) {
    EXPECT_NEAR(found.get<double>(), wanted.get<double>(), 1e-9) << where;
    return;
  }
  ASSERT_EQ(found.size(), wanted.size()) << where;
  for (std::size_t i = 0; i < wanted.size(); ++i) ExpectNear(found[i], wanted[i], where);
}

void ExpectStatistics(const FeatureStatistics& found, bool is_image, const json& wanted) {
  const json values = ToJson(found, is_image);
  ASSERT_EQ(values.size(), wanted.size());
  for (const auto& [name, value] : wanted.items()) ExpectNear(values.at(name), value, name);
}

const std::vector<FeatureStatistics>& EpisodesOfNumbers() {
  static const std::vector<FeatureStatistics> episodes = {SummarizeNumbers(ManyNumbers(12, 0), 3),
                                                          SummarizeNumbers(ManyNumbers(1, 5), 3),
                                                          SummarizeNumbers(ManyNumbers(700, 9), 3)};
  return episodes;
}

TEST(LeRobotStatistics, NumbersOfAnEpisodeAreThoseOfLeRobot) {
  for (std::size_t i = 0; i < EpisodesOfNumbers().size(); ++i) {
    ExpectStatistics(EpisodesOfNumbers()[i], false, StatisticsGolden().at("numbers").at(i));
  }
}

TEST(LeRobotStatistics, EpisodesArePooledAsInLeRobot) {
  ExpectStatistics(Pool(EpisodesOfNumbers()), false, StatisticsGolden().at("pooled"));
}

TEST(LeRobotStatistics, NumbersThatAreNotFiniteDoNotCount) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> values = {nan, nan, 1.0, nan, -std::numeric_limits<double>::infinity(),
                                      nan, 3.0, nan};
  const FeatureStatistics found = SummarizeNumbers(values, 2);
  EXPECT_EQ(found.lists[kMin], (std::vector<double>{1.0, 0.0}));
  EXPECT_EQ(found.lists[kMax], (std::vector<double>{3.0, 0.0}));
  EXPECT_EQ(found.lists[kMean], (std::vector<double>{2.0, 0.0}));
  EXPECT_EQ(found.lists[kStd], (std::vector<double>{1.0, 0.0}));
  EXPECT_EQ(found.count, 4);
}

TEST(LeRobotStatistics, ImagesOfAShortEpisodeAllCount) {
  ExpectStatistics(OfImages(12, 6, 8), true, StatisticsGolden().at("small_images"));
}

TEST(LeRobotStatistics, LongEpisodesAreSampledAsInLeRobot) {
  const FeatureStatistics found = OfImages(1000, 6, 8);
  EXPECT_EQ(found.count, 177);
  ExpectStatistics(found, true, StatisticsGolden().at("sampled_images"));
}

TEST(LeRobotStatistics, LargeImagesAreReducedAsInLeRobot) {
  ExpectStatistics(OfImages(3, 20, 320), true, StatisticsGolden().at("large_images"));
  ExpectStatistics(OfImages(2, 480, 300), true, StatisticsGolden().at("high_images"));
}

TEST(LeRobotStatistics, DepthKeepsItsUnit) {
  ImageSummary summary(
      {.n_frames = 1, .width = 2, .height = 1, .n_channels = 1, .n_levels = 65536, .scale = 1.0});
  const std::vector<std::uint16_t> millimetres = {1000, 3000};
  summary.Add(std::span<const std::uint16_t>(millimetres));
  const FeatureStatistics found = summary.Finish();
  EXPECT_EQ(found.lists[kMin][0], 1000.0);
  EXPECT_EQ(found.lists[kMax][0], 3000.0);
  EXPECT_EQ(found.lists[kMean][0], 2000.0);
}

TEST(LeRobotStatistics, JsonKeepsThemBitForBit) {
  for (const FeatureStatistics& episode : EpisodesOfNumbers()) {
    const json text = json::parse(ToJson(episode, false).dump());
    EXPECT_EQ(ReadStatistics(core::JsonView(text, "stats")), episode);
  }
}

}  // namespace
}  // namespace dp_bench::lerobot
