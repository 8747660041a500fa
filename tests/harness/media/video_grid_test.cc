// Videos side by side, as a video and as a GIF.
#include "media/video_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "core/atomic_file.h"
#include "media/video_encoder.h"
#include "support/error_of.h"
#include "support/images.h"
#include "support/scratch_folder.h"

namespace dp_bench::media {
namespace {

namespace fs = std::filesystem;

constexpr int kSize = 64;
constexpr int kTile = kSize + 6;  // with its line

/// An image in a single grey.
void WriteVideo(const fs::path& path, int n_frames, std::uint8_t grey) {
  VideoEncoder encoder(path, {.width = kSize, .height = kSize, .fps = 10.0, .crf = 0});
  RgbImage frame(kSize, kSize);
  std::ranges::fill(frame.pixels, grey);
  for (int i = 0; i < n_frames; ++i) encoder.Write(frame);
  encoder.Finish();
}

// Of the tile that begins at this column.
double MeanRed(const RgbImage& image, int left) {
  double sum = 0.0;
  for (int y = 20; y < 60; ++y) {
    for (int x = 20; x < 60; ++x) sum += RedAt(image, left + x, y);
  }
  return sum / 1600.0;
}

class VideoGrid : public testing::Test {
 protected:
  void SetUp() override {
    WriteVideo(path("dark"), 4, 40);
    WriteVideo(path("grey"), 6, 120);
    WriteVideo(path("bright"), 5, 200);
  }

  fs::path path(const std::string& name) const { return scratch_.path() / (name + ".mp4"); }
  const fs::path& folder() const { return scratch_.path(); }

 private:
  const ScratchFolder scratch_;
};

TEST_F(VideoGrid, ShowsEachVideoInItsPlaceUntilTheLastEnds) {
  WriteVideoGrid({{.path = path("dark")}, {.path = path("grey")}, {.path = path("bright")}},
                 path("grid"), {.n_columns = 2, .crf = 0});
  const std::vector<RgbImage> frames = FramesOf(path("grid"));
  ASSERT_EQ(frames.size(), 6U);
  EXPECT_EQ(frames[0].width, 2 * kTile);
  EXPECT_EQ(frames[0].height, 2 * kTile);
  for (const RgbImage& frame : {frames.front(), frames.back()}) {
    EXPECT_NEAR(RedAt(frame, kTile / 2, kTile / 2), 40, 8);
    EXPECT_NEAR(RedAt(frame, kTile + kTile / 2, kTile / 2), 120, 8);
    EXPECT_NEAR(RedAt(frame, kTile / 2, kTile + kTile / 2), 200, 8);
    EXPECT_NEAR(RedAt(frame, kTile + kTile / 2, kTile + kTile / 2), 0, 8);
  }
}

TEST_F(VideoGrid, SlowMotionShowsEachImageSeveralTimes) {
  WriteVideoGrid({{.path = path("dark"), .n_repeats = 3}}, path("slow"));
  EXPECT_EQ(FramesOf(path("slow")).size(), 12U);
}

TEST_F(VideoGrid, TheLineAndTheCaptionAreDrawn) {
  WriteVideoGrid({{.path = path("dark"), .frame_colour = {250, 250, 250}, .caption = "8"}},
                 path("grid"), {.crf = 0});
  const RgbImage frame = FramesOf(path("grid")).front();
  EXPECT_GT(RedAt(frame, 1, kTile / 2), 200);
  int brightest = 0;  // of the digit, where the video is dark
  for (int y = 3; y < 13; ++y) {
    for (int x = 3; x < 13; ++x) brightest = std::max(brightest, RedAt(frame, x, y));
  }
  EXPECT_GT(brightest, 120);
}

TEST_F(VideoGrid, ANameThatEndsInGifGivesAGif) {
  WriteVideoGrid({{.path = path("grey")}, {.path = path("bright")}}, folder() / "grid.gif");
  EXPECT_EQ(core::ReadTextFile(folder() / "grid.gif", 1U << 20).substr(0, 6), "GIF89a");
  const std::vector<RgbImage> frames = FramesOf(folder() / "grid.gif");
  ASSERT_GE(frames.size(), 1U);
  EXPECT_EQ(frames[0].width, 2 * kTile);
  // the fixed colours give others on average
  EXPECT_NEAR(MeanRed(frames[0], 0), 120, 12);
  EXPECT_NEAR(MeanRed(frames[0], kTile), 200, 12);
}

TEST_F(VideoGrid, EqualVideosGiveEqualGifs) {
  for (const char* name : {"a.gif", "b.gif"})
    WriteVideoGrid({{.path = path("grey")}}, folder() / name);
  EXPECT_EQ(core::ReadTextFile(folder() / "a.gif", 1U << 20),
            core::ReadTextFile(folder() / "b.gif", 1U << 20));
}

TEST_F(VideoGrid, RefusesNoVideosAndNamesWhatIsNoVideo) {
  EXPECT_EQ(CodeOf([&] { WriteVideoGrid({}, path("grid")); }), ErrorCode::kUsage);
  EXPECT_THAT(MessageOf(ErrorCode::kMedia,
                        [&] { WriteVideoGrid({{.path = path("nowhere")}}, path("grid")); }),
              testing::HasSubstr("nowhere.mp4"));
  EXPECT_FALSE(fs::exists(path("grid")));
  EXPECT_THAT(MessageOf(ErrorCode::kUsage,
                        [&] { WriteVideoGrid({{.path = path("dark")}}, folder() / "a.avi"); }),
              testing::AllOf(testing::HasSubstr("a.avi"), testing::HasSubstr(".mp4"),
                             testing::HasSubstr(".gif")));
  EXPECT_FALSE(fs::exists(folder() / "a.avi"));
}

}  // namespace
}  // namespace dp_bench::media
