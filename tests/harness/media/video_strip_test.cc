// Frames of a video side by side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "media/video_encoder.h"
#include "media/video_grid.h"
#include "support/error_of.h"
#include "support/images.h"
#include "support/scratch_folder.h"

namespace dp_bench::media {
namespace {

namespace fs = std::filesystem;

constexpr int kWidth = 32;
constexpr int kHeight = 16;

/// Frame i is grey with value 10 i.
void WriteGreys(const fs::path& path, int n_frames) {
  VideoEncoder encoder(path, {.width = kWidth, .height = kHeight, .fps = 10.0, .crf = 0});
  for (int i = 0; i < n_frames; ++i) {
    RgbImage frame(kWidth, kHeight);
    std::ranges::fill(frame.pixels, static_cast<std::uint8_t>(10 * i));
    encoder.Write(frame);
  }
  encoder.Finish();
}

/// The number of the frame at each place, from the middle of its image.
std::vector<int> FramesIn(const RgbImage& strip) {
  std::vector<int> frames;
  for (int x = kWidth / 2; x < strip.width; x += kWidth) {
    const auto i = static_cast<std::size_t>(kHeight / 2 * strip.width + x) * 3;
    frames.push_back((strip.pixels[i] + 5) / 10);
  }
  return frames;
}

TEST(VideoStrip, HasTheFirstTheLastAndEvenlySpacedFrames) {
  const ScratchFolder scratch;
  const fs::path video = scratch.path() / "greys.mp4";
  WriteGreys(video, 21);
  const RgbImage strip = VideoStrip(video, 5);
  EXPECT_EQ(strip.width, 5 * kWidth);
  EXPECT_EQ(strip.height, kHeight);
  EXPECT_THAT(FramesIn(strip), testing::ElementsAre(0, 5, 10, 15, 20));
}

TEST(VideoStrip, OfAShorterVideoHasEachFrameOnce) {
  const ScratchFolder scratch;
  const fs::path video = scratch.path() / "greys.mp4";
  WriteGreys(video, 3);
  EXPECT_THAT(FramesIn(VideoStrip(video, 5)), testing::ElementsAre(0, 1, 2));
  WriteGreys(video, 1);
  EXPECT_THAT(FramesIn(VideoStrip(video, 5)), testing::ElementsAre(0));
}

TEST(VideoStrips, HaveARowForEachVideoAsWideAsTheWidest) {
  const ScratchFolder scratch;
  WriteGreys(scratch.path() / "long.mp4", 9);
  WriteGreys(scratch.path() / "short.mp4", 2);
  const fs::path image = scratch.path() / "strips.png";
  WriteVideoStrips({{.path = scratch.path() / "long.mp4"}, {.path = scratch.path() / "short.mp4"}},
                   image, {.n_columns = 3});
  RgbImage rows = FramesOf(image).at(0);
  ASSERT_EQ(rows.width, 3 * kWidth);
  ASSERT_EQ(rows.height, 2 * kHeight);
  EXPECT_THAT(FramesIn(rows), testing::ElementsAre(0, 4, 8));
  rows.pixels.erase(rows.pixels.begin(), rows.pixels.begin() + 3 * 3 * kWidth * kHeight);
  EXPECT_THAT(FramesIn(rows), testing::ElementsAre(0, 1, 0)) << "a short video leaves black";
}

TEST(VideoStrips, AreRefusedWithoutVideosAndWithOneColumn) {
  const ScratchFolder scratch;
  const fs::path image = scratch.path() / "strips.png";
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { WriteVideoStrips({}, image); }),
              testing::HasSubstr("at least one"));
  EXPECT_THAT(
      MessageOf(ErrorCode::kUsage, [&] { WriteVideoStrips({{}}, image, {.n_columns = 1}); }),
      testing::HasSubstr("at least 2 columns, found 1"));
}

TEST(VideoStrip, NamesAFileThatIsNoVideo) {
  EXPECT_THAT(MessageOf(ErrorCode::kMedia, [] { VideoStrip("/dev/null", 5); }),
              testing::HasSubstr("/dev/null"));
}

}  // namespace
}  // namespace dp_bench::media
