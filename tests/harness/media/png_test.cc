// PNG files, read back by a decoder that is not ours.
#include "media/png.h"

#include <gtest/gtest.h>

#include "dp_bench/error.h"
#include "media/video_reader.h"
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

TEST(Png, AMissingFolderIsAnError) {
  const ScratchFolder scratch;
  EXPECT_EQ(CodeOf([&] { WritePng(scratch.path() / "absent" / "a.png", RgbImage(2, 2)); }),
            ErrorCode::kIo);
}

}  // namespace
}  // namespace dp_bench::media
