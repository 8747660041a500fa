// Every number and image equals what LeRobot itself reads.
#include "support/golden.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "data/loader.h"
#include "data/sequence_sampler.h"
#include "small_lerobot.h"

namespace dp_bench::lerobot::testing {
namespace {

// LeRobot computes the exponential function of depth with other instructions: a code whose depth is
// half-way between two millimetres may be rounded to either.
constexpr int kDepthTolerance = 1;  // [mm]

// Means over the pixels of an image.
constexpr double kMeanTolerance = 1e-6;

struct Case {
  const char* name;
  const char* golden;  // the file, and the dataset in it
  const char* golden_name;
  double fps;
};

class GoldenTest : public ::testing::TestWithParam<Case> {
 protected:
  const Array& Find(const std::string& tensor) const {
    return Golden(GetParam().golden).tensors.at(GetParam().golden_name + ("/" + tensor));
  }

  // The features with this suffix in the golden file.
  std::vector<std::string> Features(const std::string& suffix) const {
    const std::string begin = GetParam().golden_name + std::string("/");
    std::vector<std::string> names;
    for (const auto& [name, array] : Golden(GetParam().golden).tensors) {
      const bool is_number = name.find('/', begin.size()) == std::string::npos;
      if (!name.starts_with(begin) || !name.ends_with(suffix)) continue;
      if (suffix.empty() && !is_number) continue;
      names.push_back(name.substr(begin.size(), name.size() - begin.size() - suffix.size()));
    }
    return names;
  }

  std::unique_ptr<LeRobotDataset> Open() const {
    LeRobotConfig config{.path = SmallFolder(GetParam().name)};
    for (const std::string& feature : Features("")) {
      config.keys[feature] = {.source = feature};
    }
    for (const std::string& feature : Features("/frames")) {
      config.keys[feature] = {.source = feature};
    }
    return std::make_unique<LeRobotDataset>(config);
  }
};

TEST_P(GoldenTest, EpisodesAndRateAreThoseOfLeRobot) {
  const auto dataset = Open();
  EXPECT_THAT(dataset->episode_ends(), ::testing::ElementsAre(12, 21, 33));
  EXPECT_EQ(dataset->spec().fps, GetParam().fps);
}

TEST_P(GoldenTest, EveryNumberIsEqual) {
  const auto dataset = Open();
  for (const std::string& feature : Features("")) {
    const Array& wanted = Find(feature);
    const std::vector<float> found = ReadAll<float>(*dataset, feature);
    ASSERT_EQ(static_cast<std::int64_t>(found.size()), wanted.size()) << feature;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const float value = wanted.dtype() == DType::kInt64
                              ? static_cast<float>(wanted.as<std::int64_t>()[i])
                              : wanted.as<float>()[i];
      ASSERT_EQ(found[i], value) << feature << " at " << i;
    }
  }
}

// The largest difference between LeRobot's own two decoders, measured by the generator.
int SpreadOf(const Case& which, const std::string& feature) {
  return std::stoi(
      Golden(which.golden).metadata.at(std::string(which.golden_name) + "/" + feature + "/spread"));
}

TEST_P(GoldenTest, ImagesAreWithinTheSpreadOfLeRobotsDecoders) {
  const auto dataset = Open();
  for (const std::string& feature : Features("/frames")) {
    const KeySpec& spec = SpecOf(*dataset, feature);
    const auto n = static_cast<std::size_t>(spec.NumElements());
    const auto steps = Find(feature + "/steps").as<std::int64_t>();
    const auto compare = [&](auto zero, int tolerance) {
      using Pixel = decltype(zero);
      const std::vector<Pixel> found = ReadAll<Pixel>(*dataset, feature);
      const auto wanted = Find(feature + "/frames").as<Pixel>();
      ASSERT_EQ(wanted.size(), steps.size() * n);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        const auto step = static_cast<std::size_t>(steps[i / n]);
        ASSERT_LE(std::abs(int{found[step * n + i % n]} - int{wanted[i]}), tolerance)
            << feature << ", step " << step << ", element " << i % n;
      }
    };
    if (spec.type == KeyType::kRgb) {
      compare(std::uint8_t{}, SpreadOf(GetParam(), feature));
    } else {
      compare(std::uint16_t{}, SpreadOf(GetParam(), feature) + kDepthTolerance);
    }
  }
}

// The mean over the pixels of every step, so that no frame is in another's place.
TEST_P(GoldenTest, EveryFrameIsAtItsStep) {
  const auto dataset = Open();
  for (const std::string& feature : Features("/means")) {
    const KeySpec& spec = SpecOf(*dataset, feature);
    const auto n_channels = static_cast<std::size_t>(spec.shape[0]);
    const auto n_pixels = static_cast<std::size_t>(spec.shape[1] * spec.shape[2]);
    const bool is_rgb = spec.type == KeyType::kRgb;
    std::vector<double> values;
    if (is_rgb) {
      std::ranges::copy(ReadAll<std::uint8_t>(*dataset, feature), std::back_inserter(values));
    } else {
      std::ranges::copy(ReadAll<std::uint16_t>(*dataset, feature), std::back_inserter(values));
    }
    const auto wanted = Find(feature + "/means").as<double>();
    const double tolerance =
        SpreadOf(GetParam(), feature) + (is_rgb ? kMeanTolerance : kDepthTolerance);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      double sum = 0.0;
      for (std::size_t pixel = 0; pixel < n_pixels; ++pixel) {
        sum += values[(i / n_channels * n_pixels + pixel) * n_channels + i % n_channels];
      }
      ASSERT_NEAR(sum / static_cast<double>(n_pixels), wanted[i], tolerance)
          << feature << ", step " << i / n_channels;
    }
  }
}

// Two observed and eight predicted steps, as LeRobot's delta_timestamps [-1, 0] and [-1, 6] give
// them.
TEST(LeRobotWindows, EqualThoseOfDeltaTimestamps) {
  const auto wanted = [](const std::string& name) -> const Array& {
    return Golden("lerobot_v30").tensors.at("windows/" + name);
  };
  const LeRobotDataset dataset({.path = SmallFolder("v30_av1")});
  const auto ends = dataset.episode_ends();
  data::BatchLoader loader(dataset,
                           data::SequenceSampler({.episode_ends = {ends.begin(), ends.end()},
                                                  .horizon = 8,
                                                  .pad_before = 1,
                                                  .pad_after = 6}),
                           {.batch_size = 33, .shuffle = false, .keys = {"state", "top"}});
  loader.StartEpoch(0);
  data::HostBatch batch;
  ASSERT_TRUE(loader.Next(&batch));
  EXPECT_TRUE(std::ranges::equal(batch.action.bytes(), wanted("action").bytes()));
  EXPECT_TRUE(
      std::ranges::equal(batch.obs.at("state").bytes(), wanted("observation.state").bytes()));
  EXPECT_TRUE(std::ranges::equal(batch.is_pad.bytes(), wanted("action_is_pad").bytes()));
  EXPECT_EQ(batch.obs.at("top").shape(), (Shape{33, 2, 24, 32, 3}));
}

INSTANTIATE_TEST_SUITE_P(LeRobot, GoldenTest,
                         ::testing::Values(Case{"v20_images", "lerobot_v21", "v21_images", 15.0},
                                           Case{"v21_av1", "lerobot_v21", "v21_av1", 10.0},
                                           Case{"v21_images", "lerobot_v21", "v21_images", 15.0},
                                           Case{"v30_av1", "lerobot_v30", "v30_av1", 10.0},
                                           Case{"v30_h264", "lerobot_v30", "v30_h264", 7.0},
                                           Case{"v30_hevc", "lerobot_v30", "v30_hevc", 60.0},
                                           Case{"v30_images", "lerobot_v30", "v30_images", 10.0}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace dp_bench::lerobot::testing
