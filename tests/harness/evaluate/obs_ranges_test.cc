// The ranges that observations are compared with.
#include <gtest/gtest.h>

#include "evaluate/evaluation.h"
#include "train/fit_normalizer.h"

namespace dp_bench::evaluate {
namespace {

TEST(ObsRanges, AreThoseOfTheNormalizersLowDimensionalKeys) {
  ShapeMeta meta;
  meta.obs = {{.name = "image", .type = KeyType::kRgb, .shape = {3, 4, 4}, .dtype = DType::kUInt8},
              {.name = "pos", .shape = {2}},
              {.name = "unknown", .shape = {1}},
              {.name = "without_limits", .shape = {1}}};
  const Normalizer normalizer(
      {train::FitKey("image", {}, NormalizeMode::kImage),
       train::FitKey("pos", {.min = {-1.0, 2.0}, .max = {1.0, 4.0}}, NormalizeMode::kLimits),
       train::FitKey("without_limits", {.mean = {0.0}, .std = {1.0}}, NormalizeMode::kGaussian),
       train::FitKey("action", {.min = {0.0}, .max = {1.0}}, NormalizeMode::kLimits)});
  const run::ObsRanges ranges = ObsRangesOf(normalizer, meta);
  ASSERT_EQ(ranges.size(), 1U);
  EXPECT_EQ(ranges.at("pos").low, (std::vector<double>{-1.0, 2.0}));
  EXPECT_EQ(ranges.at("pos").high, (std::vector<double>{1.0, 4.0}));
}

}  // namespace
}  // namespace dp_bench::evaluate
