// Folders and zip archives as datasets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dp_bench/error.h"
#include "small_replay.h"
#include "support/error_of.h"

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
  config.keys["keypoint"] = {.source = "data/keypoint"};
  config.keys["last_point"] = {.source = "data/keypoint", .begin = 16};
  config.keys["reward"] = {.source = "data/reward"};
  const ZarrReplayDataset dataset(config);
  EXPECT_EQ(SpecOf(dataset, "keypoint").shape, (Shape{9, 2}));
  EXPECT_EQ(SpecOf(dataset, "last_point").shape, (Shape{2}));
  EXPECT_EQ(SpecOf(dataset, "reward").shape, (Shape{1}));
  const std::vector<float> last = ReadAll<float>(dataset, "last_point");
  EXPECT_EQ(last[2], 34.0F) << "step 1: 18 + 16";
}

// As UMI stores them: one JPEG XL file per chunk, here 4 x 4 pixels that count up in fives.
TEST(ZarrReplay, ReadsImagesInsideChunks) {
  constexpr unsigned char kJpegXl[] = {
      0xff, 0x0a, 0x18, 0x10, 0x10, 0x09, 0x08, 0x04, 0x01, 0x00, 0x84, 0x00, 0x4b, 0x18, 0x93,
      0x8e, 0x83, 0x83, 0x19, 0x28, 0x16, 0x92, 0xa5, 0xc0, 0x54, 0xc0, 0x5e, 0x20, 0x20, 0x80,
      0xfe, 0xff, 0xff, 0xff, 0xff, 0x3f, 0x00, 0x00, 0x00, 0x40, 0xc0, 0x00, 0x06, 0x30, 0x00};
  const Encoding encoding = {.json = {{"id", "imagecodecs_jpegxl"}, {"level", 99}},
                             .encode = [&](std::size_t, std::span<const std::byte>) {
                               const auto bytes = std::as_bytes(std::span(kJpegXl));
                               return Bytes(bytes.begin(), bytes.end());
                             }};
  ZarrFiles files = SmallReplay();
  files.AddArray<std::uint8_t>("data/img", {{10, 4, 4, 3}, {1, 4, 4, 3}, encoding},
                               Count<std::uint8_t>(480));
  const TemporaryFolder folder;
  files.WriteZip(folder.path() / "a.zarr.zip");
  try {
    const ZarrReplayDataset dataset(SmallConfig(folder.path() / "a.zarr.zip"));
    const std::vector<std::uint8_t> pixels = ReadAll<std::uint8_t>(dataset, "image");
    for (std::size_t i = 0; i < pixels.size(); ++i) ASSERT_EQ(pixels[i], 5 * (i % 48));
  } catch (const Error& error) {
    ASSERT_THAT(error.what(),
                ::testing::HasSubstr("data/img/0.0.0.0: JPEG XL is not decoded here"));
    GTEST_SKIP() << error.what();
  }
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

TEST(ZarrReplay, SaysThatTheDatasetIsOneFolderDeeperOrHasNoEpisodeYet) {
  const TemporaryFolder folder;
  SmallReplay().WriteFolder(folder.path() / "outer" / "mine.zarr");
  EXPECT_THAT(
      MessageOf(ErrorCode::kData, [&] { ZarrReplayDataset({.path = folder.path() / "outer"}); }),
      ::testing::HasSubstr("one folder deeper"));
  ZarrFiles begun;
  begun[".zattrs"] = ToBytes(R"({"complete": false})");
  begun.WriteFolder(folder.path() / "begun.zarr");
  EXPECT_THAT(MessageOf(ErrorCode::kData,
                        [&] { ZarrReplayDataset({.path = folder.path() / "begun.zarr"}); }),
              ::testing::HasSubstr("has no episode yet"));
}

}  // namespace
}  // namespace dp_bench::zarr_replay::testing
