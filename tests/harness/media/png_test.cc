// PNG files, read back by another decoder.
#include "media/png.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "core/atomic_file.h"
#include "dp_bench/error.h"
#include "support/error_of.h"
#include "support/images.h"
#include "support/scratch_folder.h"

namespace dp_bench::media {
namespace {

TEST(Png, HoldsTheImageWithoutLoss) {
  const ScratchFolder scratch;
  RgbImage image(37, 21);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    image.pixels[i] = static_cast<std::uint8_t>(i * i + i / 7);
  }
  WritePng(scratch.path() / "a.png", image);
  const RgbImage found = FramesOf(scratch.path() / "a.png").at(0);
  EXPECT_EQ(found.width, 37);
  EXPECT_EQ(found.height, 21);
  EXPECT_EQ(found.pixels, image.pixels);
}

TEST(Png, AnImageThatFillsManyChunksIsWhole) {
  RgbImage image(400, 300);
  for (std::uint32_t i = 0; i < image.pixels.size(); ++i) {
    image.pixels[i] =
        static_cast<std::uint8_t>(i * i * i * 2654435761U >> 24U);  // hardly compresses
  }
  const std::string file = EncodePng(image);
  EXPECT_GT(file.size(), image.pixels.size() / 2);
  EXPECT_EQ(file.substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_EQ(file.substr(file.size() - 8, 4), "IEND");

  const ScratchFolder scratch;
  WritePng(scratch.path() / "a.png", image);
  EXPECT_EQ(core::ReadTextFile(scratch.path() / "a.png", 1U << 20), file);
  const RgbImage found = FramesOf(scratch.path() / "a.png").at(0);
  EXPECT_EQ(found.pixels, image.pixels);
}

TEST(Png, TheImageIsLeftAloneAndEqualImagesGiveEqualFiles) {
  RgbImage image(5, 4);
  image.pixels[7] = 200;
  const RgbImage before = image;
  EXPECT_EQ(EncodePng(image), EncodePng(before));
  EXPECT_EQ(image.pixels, before.pixels);
}

TEST(Png, AnImageOfNoPixelsIsAnError) {
  EXPECT_EQ(CodeOf([] { EncodePng(RgbImage(0, 0)); }), ErrorCode::kMedia);
}

TEST(Png, AMissingFolderIsAnError) {
  const ScratchFolder scratch;
  EXPECT_EQ(CodeOf([&] { WritePng(scratch.path() / "absent" / "a.png", RgbImage(2, 2)); }),
            ErrorCode::kIo);
}

}  // namespace
}  // namespace dp_bench::media
