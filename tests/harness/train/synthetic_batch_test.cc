// The content of a batch of random numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/error_of.h"
#include "support/small_policy.h"
#include "train/batches.h"

namespace dp_bench::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

PolicySpec SpecWithDepth(DType dtype) {
  PolicySpec spec = SmallSpec(/*image_size=*/8);
  spec.shape_meta.obs.push_back(
      {.name = "near", .type = KeyType::kDepth, .shape = {1, 8, 8}, .dtype = dtype});
  return spec;
}

TEST(SyntheticBatch, HasTheShapesAndTypesOfTheRun) {
  const data::HostBatch batch = SyntheticBatch(SpecWithDepth(DType::kUInt16), 3);
  EXPECT_THAT(batch.obs.at("agent_pos").shape(), ElementsAre(3, 2, 2));
  EXPECT_THAT(batch.obs.at("image").shape(), ElementsAre(3, 2, 8, 8, 3));
  EXPECT_EQ(batch.obs.at("image").dtype(), DType::kUInt8);
  EXPECT_THAT(batch.obs.at("near").shape(), ElementsAre(3, 2, 8, 8, 1));
  EXPECT_THAT(batch.action.shape(), ElementsAre(3, 8, 2));
  EXPECT_THAT(batch.is_pad.shape(), ElementsAre(3, 8));
}

TEST(SyntheticBatch, HasDepthInItsUnits) {
  const data::HostBatch millimetres = SyntheticBatch(SpecWithDepth(DType::kUInt16), 3);
  const auto far = std::ranges::max(millimetres.obs.at("near").as<std::uint16_t>());
  EXPECT_GT(far, 1900);
  EXPECT_LE(far, 2000);
  const data::HostBatch metres = SyntheticBatch(SpecWithDepth(DType::kFloat32), 3);
  const auto far_metres = std::ranges::max(metres.obs.at("near").as<float>());
  EXPECT_GT(far_metres, 1.9F);
  EXPECT_LE(far_metres, 2.0F);
}

TEST(SyntheticBatch, HasRowsThatDoNotDependOnEachOther) {
  const data::HostBatch one = SyntheticBatch(SmallSpec(), 1);
  const data::HostBatch three = SyntheticBatch(SmallSpec(), 3);
  const auto first = one.action.as<float>();
  const auto all = three.action.as<float>();
  EXPECT_TRUE(std::ranges::equal(first, all.first(first.size())));
  EXPECT_FALSE(std::ranges::equal(first, all.subspan(first.size(), first.size())));
}

TEST(SyntheticBatch, RefusesTypesThatNoPolicyReads) {
  EXPECT_THAT(
      MessageOf(ErrorCode::kConfig, [] { SyntheticBatch(SpecWithDepth(DType::kInt64), 1); }),
      HasSubstr("cannot draw random depth values of dtype int64 for 'near'"));
}

}  // namespace
}  // namespace dp_bench::train
