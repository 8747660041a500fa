// Folders and zip archives as data sets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dp_bench/error.h"
#include "small_replay.h"

namespace dp_bench::zarr_replay::testing {
namespace {

using ::testing::ElementsAre;

void ExpectSmallReplay(const Dataset& dataset) {
  EXPECT_THAT(dataset.episode_ends(), ElementsAre(4, 9, 10));
  EXPECT_EQ(ReadAll<float>(dataset, "action"), Count<float>(20));
  const std::vector<float> agent_pos = ReadAll<float>(dataset, "agent_pos");
  ASSERT_EQ(agent_pos.size(), 20U);
  for (std::size_t step = 0; step < 10; ++step) {
    EXPECT_EQ(agent_pos[2 * step], 5.0F * static_cast<float>(step));
    EXPECT_EQ(agent_pos[2 * step + 1], 5.0F * static_cast<float>(step) + 1.0F);
  }
  EXPECT_EQ(ReadAll<std::uint8_t>(dataset, "image"), Count<std::uint8_t>(480));
  EXPECT_EQ(dataset.spec().keys[2].shape, (Shape{3, 4, 4}));
}

TEST(ZarrReplay, ReadsAFolder) {
  const TemporaryFolder folder;
  SmallReplay().WriteFolder(folder.path());
  ExpectSmallReplay(ZarrReplayDataset(SmallConfig(folder.path())));
}

TEST(ZarrReplay, ReadsAZipArchive) {
  for (const bool deflate : {false, true}) {
    const TemporaryFolder folder;
    SmallReplay().WriteZip(folder.path() / "small.zarr.zip", deflate);
    ExpectSmallReplay(ZarrReplayDataset(SmallConfig(folder.path() / "small.zarr.zip")));
  }
}

TEST(ZarrReplay, ShapesFollowTheArrays) {
  const TemporaryFolder folder;
  ZarrFiles files = SmallReplay();
  files.AddArray<float>("data/keypoint", {{10, 9, 2}, {10, 9, 2}}, Count<float>(180));
  files.AddArray<float>("data/reward", {{10}, {10}}, Count<float>(10));
  files.WriteFolder(folder.path());
  ZarrReplayConfig config = SmallConfig(folder.path());
  config.keys["keypoint"] = {.array = "data/keypoint"};
  config.keys["last_point"] = {.array = "data/keypoint", .begin = 16};
  config.keys["reward"] = {.array = "data/reward"};
  const ZarrReplayDataset dataset(config);
  const auto shape = [&dataset](const char* key) {
    return dataset.spec().keys[static_cast<std::size_t>(dataset.KeyIndex(key))].shape;
  };
  EXPECT_EQ(shape("keypoint"), (Shape{9, 2}));
  EXPECT_EQ(shape("last_point"), (Shape{2}));
  EXPECT_EQ(shape("reward"), (Shape{1}));
  const std::vector<float> last = ReadAll<float>(dataset, "last_point");
  EXPECT_EQ(last[2], 34.0F) << "step 1: 18 + 16";
}

TEST(ZarrReplay, ReadsItsParams) {
  const TemporaryFolder folder;
  SmallReplay().WriteFolder(folder.path());
  const Config params =
      Config::FromJson(R"({"path": ")" + folder.path().string() +
                       R"(", "fps": 20, "keys": {"action": {"array": "data/action"},
          "agent_pos": {"array": "data/state", "begin": 0, "end": 2},
          "image": {"array": "data/img", "type": "rgb"}}})");
  const auto dataset = ZarrReplayDataset::Create(params);
  params.RejectUnread();
  EXPECT_EQ(dataset->spec().fps, 20.0);
  ExpectSmallReplay(*dataset);
}

}  // namespace
}  // namespace dp_bench::zarr_replay::testing
