#include "data/key_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/error_of.h"

namespace dp_bench::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const ShapeMeta kMeta = {
    .obs = {{.name = "image", .type = KeyType::kRgb, .shape = {3, 8, 8}, .dtype = DType::kUInt8},
            {.name = "state", .shape = {4}}},
    .action = {.name = "action", .shape = {2}}};

DatasetSpec FittingDataset() {
  return {.keys = {kMeta.action, kMeta.obs[0], {.name = "reward", .shape = {1}}, kMeta.obs[1]}};
}

TEST(KeyCheck, ADatasetMayHoldMore) { RequireKeys(FittingDataset(), kMeta); }

TEST(KeyCheck, WhatIsMissingOrDiffersIsListedWithBothSides) {
  DatasetSpec dataset = FittingDataset();
  dataset.keys[3].shape = {7};
  dataset.keys.erase(dataset.keys.begin() + 1);
  EXPECT_THAT(
      MessageOf(ErrorCode::kShape, [&] { RequireKeys(dataset, kMeta); }),
      AllOf(HasSubstr("no 'image', 'state' differs"), HasSubstr("state: low_dim float32 [4]"),
            HasSubstr("state: low_dim float32 [7]")));
}

TEST(KeyCheck, TheActionIsAKeyToo) {
  DatasetSpec dataset = FittingDataset();
  dataset.keys[0].shape = {3};
  EXPECT_THAT(MessageOf(ErrorCode::kShape, [&] { RequireKeys(dataset, kMeta); }),
              HasSubstr("'action' differs"));
}

}  // namespace
}  // namespace dp_bench::data
