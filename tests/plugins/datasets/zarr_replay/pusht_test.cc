// The published PushT demonstrations, where they are present.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "dp_bench/error.h"
#include "support/pusht_demonstrations.h"
#include "support/read_all.h"
#include "zarr_replay_dataset.h"

namespace dp_bench::zarr_replay {
namespace {

class PushtDemonstrations : public ::testing::Test {
 protected:
  void SetUp() override {
    if (path_.empty()) GTEST_SKIP() << kNoPushtDemonstrations;
  }

  const std::string path_ = FindPushtDemonstrations().string();
};

TEST_F(PushtDemonstrations, HoldTheNumbersThatZarrReads) {
  const ZarrReplayDataset dataset(
      {.path = path_,
       .keys = {{"action", {.source = "data/action"}},
                {"agent_pos", {.source = "data/state", .begin = 0, .end = 2}},
                {"keypoint", {.source = "data/keypoint"}}}});
  EXPECT_EQ(dataset.episode_ends().size(), 206U);
  EXPECT_EQ(dataset.episode_ends().front(), 161);
  EXPECT_EQ(dataset.episode_ends().back(), 25650);
  EXPECT_EQ(dataset.spec().keys[2].shape, (Shape{9, 2}));
  // as zarr 2.18 reads them
  EXPECT_THAT(ReadSteps<float>(dataset, "action", 0, 1), ::testing::ElementsAre(233, 71));
  EXPECT_THAT(ReadSteps<float>(dataset, "agent_pos", 25649, 25650),
              ::testing::ElementsAre(144.55124F, 305.26306F));
  EXPECT_THAT(ReadSteps<float>(dataset, "keypoint", 7777, 7778), ::testing::Contains(224.54507F));
}

TEST_F(PushtDemonstrations, KeepImagesAsBytes) {
  const ZarrReplayDataset dataset(
      {.path = path_,
       .keys = {{"action", {.source = "data/action"}},
                {"image", {.source = "data/img", .type = KeyType::kRgb}}}});
  const KeySpec& image = dataset.spec().keys[1];
  EXPECT_EQ(image.shape, (Shape{3, 96, 96}));
  EXPECT_EQ(image.ByteSize(), 96U * 96U * 3U);
  std::uint64_t sum = 0;
  for (const auto value : ReadSteps<std::uint8_t>(dataset, "image", 12345, 12346)) sum += value;
  EXPECT_EQ(sum, 6885699U) << "as zarr 2.18 reads data/img[12345]";
}

}  // namespace
}  // namespace dp_bench::zarr_replay
