// PNG files, read back by another decoder.
#include "media/png.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "core/atomic_file.h"
#include "dp_bench/error.h"
#include "media/video_frames.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::media {
namespace {

TEST(Png, HoldsThePictureWithoutLoss) {
  const ScratchFolder scratch;
  RgbImage picture(37, 21);
  for (std::size_t i = 0; i < picture.pixels.size(); ++i) {
    picture.pixels[i] = static_cast<std::uint8_t>(i * i + i / 7);
  }
  WritePng(scratch.path() / "a.png", picture);
  VideoReader reader(scratch.path() / "a.png");
  RgbImage found(1, 1);
  ASSERT_TRUE(reader.Read(&found));
  EXPECT_EQ(found.width, 37);
  EXPECT_EQ(found.height, 21);
  EXPECT_EQ(found.pixels, picture.pixels);
}

TEST(Png, APictureThatFillsManyChunksIsWhole) {
  RgbImage picture(400, 300);
  for (std::uint32_t i = 0; i < picture.pixels.size(); ++i) {
    picture.pixels[i] =
        static_cast<std::uint8_t>(i * i * i * 2654435761U >> 24U);  // hardly compresses
  }
  const std::string file = EncodePng(picture);
  EXPECT_GT(file.size(), picture.pixels.size() / 2);
  EXPECT_EQ(file.substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_EQ(file.substr(file.size() - 8, 4), "IEND");

  const ScratchFolder scratch;
  WritePng(scratch.path() / "a.png", picture);
  EXPECT_EQ(core::ReadTextFile(scratch.path() / "a.png", 1U << 20), file);
  VideoReader reader(scratch.path() / "a.png");
  RgbImage found(1, 1);
  ASSERT_TRUE(reader.Read(&found));
  EXPECT_EQ(found.pixels, picture.pixels);
}

TEST(Png, ThePictureIsLeftAloneAndEqualPicturesGiveEqualFiles) {
  RgbImage picture(5, 4);
  picture.pixels[7] = 200;
  const RgbImage before = picture;
  EXPECT_EQ(EncodePng(picture), EncodePng(before));
  EXPECT_EQ(picture.pixels, before.pixels);
}

TEST(Png, APictureOfNoPixelsIsAnError) {
  EXPECT_EQ(CodeOf([] { EncodePng(RgbImage(0, 0)); }), ErrorCode::kMedia);
}

TEST(Png, AMissingFolderIsAnError) {
  const ScratchFolder scratch;
  EXPECT_EQ(CodeOf([&] { WritePng(scratch.path() / "absent" / "a.png", RgbImage(2, 2)); }),
            ErrorCode::kIo);
}

}  // namespace
}  // namespace dp_bench::media
