// Every number and image equals what h5py and libjpeg read.
#include "support/golden.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "small_hdf5.h"

namespace dp_bench::hdf5::testing {
namespace {

using ::testing::ElementsAre;

// Chroma is interpolated with another filter. [levels, in the mean]
constexpr double kJpegTolerance = 1.5;

template <class T>
std::vector<float> AsFloats(const Dataset& dataset, const std::string& key) {
  const std::vector<T> values = ReadAll<T>(dataset, key);
  return {values.begin(), values.end()};
}

std::vector<float> Wanted(const std::string& name) {
  const auto values = Golden("hdf5").tensors.at(name).as<float>();
  return {values.begin(), values.end()};
}

TEST(Hdf5Golden, RobomimicIsReadAsH5pyReadsIt) {
  const Hdf5Dataset dataset({.path = SmallData("robomimic.hdf5")});
  EXPECT_THAT(dataset.episode_ends(), ElementsAre(4, 5, 10)) << "demo_10 is after demo_2";
  EXPECT_EQ(dataset.spec().fps, 20.0);
  for (const KeySpec& key : dataset.spec().keys) {
    const std::vector<float> found =
        key.dtype == DType::kUInt8    ? AsFloats<std::uint8_t>(dataset, key.name)
        : key.dtype == DType::kUInt16 ? AsFloats<std::uint16_t>(dataset, key.name)
                                      : ReadAll<float>(dataset, key.name);
    EXPECT_EQ(found, Wanted("robomimic/" + key.name)) << key.name;
  }
  EXPECT_EQ(dataset.spec().keys.size(), 7U);
  EXPECT_EQ(SpecOf(dataset, "planes").type, KeyType::kRgb);
  EXPECT_THAT(SpecOf(dataset, "planes").shape, ElementsAre(3, 6, 8));
  EXPECT_EQ(SpecOf(dataset, "depth").type, KeyType::kDepth);
  EXPECT_THAT(SpecOf(dataset, "grid").shape, ElementsAre(2, 3));
  EXPECT_THAT(SpecOf(dataset, "gripper_open").shape, ElementsAre(1));
}

TEST(Hdf5Golden, ActWithPaddedJpegIsReadAsLibjpegReadsIt) {
  const Hdf5Dataset dataset({.path = SmallData("act")});
  EXPECT_THAT(dataset.episode_ends(), ElementsAre(2, 5, 7)) << "episode_10 is after episode_2";
  EXPECT_EQ(dataset.spec().fps, 0.0) << "unknown";
  for (const char* const name : {"action", "qpos", "qvel"}) {
    EXPECT_EQ(ReadAll<float>(dataset, name), Wanted(std::string("act/") + name)) << name;
  }
  const std::vector<float> found = AsFloats<std::uint8_t>(dataset, "top");
  const std::vector<float> wanted = Wanted("act/top");
  ASSERT_EQ(found.size(), wanted.size());
  double sum = 0.0;
  for (std::size_t i = 0; i < found.size(); ++i) sum += std::abs(found[i] - wanted[i]);
  EXPECT_LT(sum / static_cast<double>(found.size()), kJpegTolerance);
}

TEST(Hdf5Golden, FilterKeysOfFixedAndVariableLengthSelectDemonstrations) {
  const Hdf5Dataset train({.path = SmallData("robomimic.hdf5"), .filter_key = "train"});
  EXPECT_THAT(train.episode_ends(), ElementsAre(4, 9));
  const Hdf5Dataset valid({.path = SmallData("robomimic.hdf5"), .filter_key = "valid"});
  EXPECT_THAT(valid.episode_ends(), ElementsAre(1));
}

}  // namespace
}  // namespace dp_bench::hdf5::testing
