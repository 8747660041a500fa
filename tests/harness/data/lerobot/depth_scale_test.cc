#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "data/lerobot/camera.h"
#include "support/error_of.h"

namespace dp_bench::lerobot {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::uint16_t> Convert(const DepthScale& scale, int bits,
                                   const std::vector<float>& values) {
  std::vector<std::uint16_t> out(values.size());
  scale.ToMillimetres(bits, values, out);
  return out;
}

TEST(DepthScale, LogarithmicCodesRunFromTheLeastToTheLargestDepth) {
  const DepthCode code = {.min = 0.01, .max = 10.0, .shift = 3.5, .is_logarithmic = true};
  const DepthScale scale = DepthScale::OfCodes(code);
  EXPECT_THAT(Convert(scale, 12, {0, 4095}), ElementsAre(10, 10000));
  // half of the codes cover the part of the range that is half as large on the logarithmic scale
  const double middle = std::exp(0.5 * (std::log(3.51) + std::log(13.5))) - 3.5;
  EXPECT_NEAR(Convert(scale, 12, {2047.5F}).front(), 1000.0 * middle, 2.0);
}

TEST(DepthScale, LinearCodesAreEquallyFarApart) {
  const DepthScale scale =
      DepthScale::OfCodes({.min = 0.0, .max = 4.095, .shift = 3.5, .is_logarithmic = false});
  EXPECT_THAT(Convert(scale, 12, {0, 1, 1000, 4095}), ElementsAre(0, 1, 1000, 4095));
}

TEST(DepthScale, TheUnitIsThatOfInfoOrFollowsFromTheKindOfNumbers) {
  EXPECT_THAT(Convert(DepthScale::OfUnit(std::nullopt), 16, {0, 1500}), ElementsAre(0, 1500));
  EXPECT_THAT(Convert(DepthScale::OfUnit(std::nullopt), 32, {0.5F, 1.2344F}),
              ElementsAre(500, 1234));
  EXPECT_THAT(Convert(DepthScale::OfUnit(1e-3), 32, {1500.4F}), ElementsAre(1500));
  EXPECT_THAT(Convert(DepthScale::OfUnit(1.0), 16, {2}), ElementsAre(2000));
}

TEST(DepthScale, NoMeasurementIsZeroAndTooFarIsTheLargestNumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(Convert(DepthScale::OfUnit(1.0), 32, {nan, -1.0F, infinity, 70.0F}),
              ElementsAre(0, 0, 65535, 65535));
}

TEST(DepthScale, ImagesWithOtherBitsAreRefused) {
  const auto refusal = [](const DepthScale& scale, int bits) {
    return MessageOf(ErrorCode::kData, [&] { Convert(scale, bits, {1.0F}); });
  };
  EXPECT_THAT(refusal(DepthScale::OfCodes({.min = 0.01, .max = 10.0, .shift = 3.5}), 8),
              HasSubstr("expected a depth image of 12 bits, found 8"));
  EXPECT_THAT(refusal(DepthScale::OfUnit(std::nullopt), 8), HasSubstr("needs mm_per_level"));
  EXPECT_THAT(refusal(DepthScale::OfLevels(5.0), 16), HasSubstr("8 bits, found 16"));
}

}  // namespace
}  // namespace dp_bench::lerobot
