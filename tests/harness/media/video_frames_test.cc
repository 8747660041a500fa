// Files of tests/data/lerobot, which LeRobot wrote.
#include "media/video_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "core/temporary_folder.h"
#include "support/error_of.h"

namespace dp_bench::media {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kTolerance = 1e-4;  // [s]

struct File {
  const char* path;  // below tests/data/lerobot
  double fps;
  int n_frames;
  int key_every;  // a key frame every so many frames, at least
};

std::filesystem::path PathOf(const File& file) {
  return std::filesystem::path(DPB_SOURCE_DIR) / "tests/data/lerobot" / file.path;
}

// H.264 and HEVC with frames that are stored in another order than they are shown.
const std::vector<File> kFiles = {
    {"v30_av1/videos/observation.images.top/chunk-000/file-000.mp4", 10.0, 33, 2},
    {"v30_h264/videos/observation.images.top/chunk-000/file-000.mp4", 7.0, 12, 6},
    {"v30_hevc/videos/observation.images.top/chunk-000/file-000.mp4", 60.0, 33, 12},
    {"v30_av1/videos/observation.depth/chunk-000/file-000.mp4", 10.0, 33, 2}};

std::vector<float> GreyAt(VideoFrames* frames, double time) {
  std::vector<float> grey(32 * 24);
  frames->At(time, kTolerance).ToGrey(grey);
  return grey;
}

std::vector<std::vector<float>> ReadForwards(const File& file, VideoFrames* frames) {
  std::vector<std::vector<float>> all;
  for (int i = 0; i < file.n_frames; ++i) all.push_back(GreyAt(frames, i / file.fps));
  return all;
}

TEST(VideoFrames, ReadingForwardsDecodesEachFrameOnce) {
  for (const File& file : kFiles) {
    VideoFrames frames(PathOf(file), 32, 24);
    ReadForwards(file, &frames);
    EXPECT_EQ(frames.n_decoded(), file.n_frames) << file.path;
  }
}

TEST(VideoFrames, TheSameFrameAgainIsNotDecodedAgain) {
  VideoFrames frames(PathOf(kFiles[0]), 32, 24);
  EXPECT_EQ(GreyAt(&frames, 1.0), GreyAt(&frames, 1.0));
  EXPECT_LE(frames.n_decoded(), kFiles[0].key_every);
}

TEST(VideoFrames, JumpsGiveTheSameFramesAndBeginAtAKeyFrame) {
  for (const File& file : kFiles) {
    VideoFrames forwards(PathOf(file), 32, 24);
    const std::vector<std::vector<float>> wanted = ReadForwards(file, &forwards);
    VideoFrames frames(PathOf(file), 32, 24);
    int n_jumps = 0;
    for (int i = 0; i < 5 * file.n_frames; ++i) {
      const int frame = i * 5 % file.n_frames;  // 5 divides none of the lengths
      EXPECT_EQ(GreyAt(&frames, frame / file.fps), wanted[static_cast<std::size_t>(frame)])
          << file.path << ", frame " << frame;
      ++n_jumps;
    }
    EXPECT_LE(frames.n_decoded(), n_jumps * (file.key_every + 1)) << file.path;
  }
}

TEST(VideoFrames, FramesThatAreDecodedOnTheWayArePassedOn) {
  for (const File& file : kFiles) {
    VideoFrames forwards(PathOf(file), 32, 24);
    const std::vector<std::vector<float>> wanted = ReadForwards(file, &forwards);
    VideoFrames frames(PathOf(file), 32, 24);
    const int last = file.n_frames - 1;
    int n_passed = 0;
    frames.At(last / file.fps, kTolerance, [&](double time, double reach, DecodedImage& image) {
      EXPECT_GT(reach, 0.0);
      EXPECT_LE(reach, 0.5 / file.fps + kTolerance);
      const auto frame = static_cast<std::size_t>(std::lround(time * file.fps));
      std::vector<float> grey(32 * 24);
      image.ToGrey(grey);
      EXPECT_EQ(grey, wanted.at(frame)) << file.path << " " << frame;
      ++n_passed;
    });
    EXPECT_EQ(n_passed, frames.n_decoded() - 1) << file.path;
  }
}

TEST(VideoFrames, TheNearestFrameDoesNotDependOnToleranceOrOrder) {
  for (const File& file : kFiles) {
    VideoFrames forwards(PathOf(file), 32, 24);
    const std::vector<std::vector<float>> wanted = ReadForwards(file, &forwards);
    for (const int stride : {1, 2, 5, 7}) {
      VideoFrames frames(PathOf(file), 32, 24);
      for (int i = 0; i < 4 * file.n_frames; ++i) {
        const int frame = i * stride % file.n_frames;
        for (const double offset : {0.45, -0.45, 0.001, -0.2}) {
          std::vector<float> grey(32 * 24);
          frames.At((frame + offset) / file.fps, 1.0).ToGrey(grey);
          ASSERT_EQ(grey, wanted[static_cast<std::size_t>(frame)])
              << file.path << ", frame " << frame << " by " << stride << " and " << offset;
        }
      }
    }
  }
}

// Only when the frames do not fit the times, one more is decoded to compare.
TEST(VideoFrames, TimesBetweenFramesAreReadForwardsAtTheSameCost) {
  for (const File& file : kFiles) {
    VideoFrames frames(PathOf(file), 32, 24);
    for (int i = 0; i < file.n_frames; ++i) frames.At((i + 0.3) / file.fps, 1.0);
    EXPECT_EQ(frames.n_decoded(), file.n_frames) << file.path;
  }
}

TEST(VideoFrames, ATimeWithoutAFrameSaysWhichFrameIsNearest) {
  const auto refusal = [](double time) {
    return MessageOf(ErrorCode::kMedia, [&] {
      VideoFrames frames(PathOf(kFiles[0]), 32, 24);
      frames.At(time, kTolerance);
    });
  };
  EXPECT_THAT(refusal(0.56), AllOf(HasSubstr("file-000.mp4: expected a frame at 0.560000 s"),
                                   HasSubstr("the nearest one is at 0.600000 s")));
  EXPECT_THAT(refusal(3.3), HasSubstr("the nearest one is at 3.200000 s"));
  EXPECT_THAT(refusal(-1.0), HasSubstr("the nearest one is at 0.000000 s"));
}

TEST(VideoFrames, AfterAnErrorOtherFramesCanBeRead) {
  VideoFrames frames(PathOf(kFiles[1]), 32, 24);
  const std::vector<float> wanted = GreyAt(&frames, 3 / 7.0);
  EXPECT_THROW(frames.At(100.0, kTolerance), Error);
  EXPECT_EQ(GreyAt(&frames, 3 / 7.0), wanted);
}

// The error of a file in which a table makes this claim, after version and flags.
std::string RefusalOfClaim(const char* table, std::string_view claim) {
  const core::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "bomb.mp4";
  std::string text = core::ReadTextFile(PathOf(kFiles[1]), 1U << 20);
  text.replace(text.find(table) + 8, claim.size(), claim);
  core::WriteNewFile(path, text);
  return MessageOf(ErrorCode::kMedia, [&] { const VideoFrames frames(path, 32, 24); });
}

// libav would allocate an index of them.
TEST(VideoFrames, MoreSamplesThanBytesAreRefused) {
  // the size of all samples, then their number
  EXPECT_THAT(RefusalOfClaim("stsz", {"\0\0\0\1\x10\0\0\0", 8}),
              AllOf(HasSubstr("bomb.mp4"), HasSubstr("268435456 samples in")));
}

TEST(VideoFrames, MoreEntriesThanFitIntoATableAreRefused) {
  EXPECT_THAT(RefusalOfClaim("stss", {"\x10\0\0\0", 4}),
              AllOf(HasSubstr("bomb.mp4"), HasSubstr("268435456 entries of 'stss'")));
}

TEST(VideoFrames, OtherSizesAndOtherFilesAreRefused) {
  EXPECT_THAT(
      MessageOf(ErrorCode::kMedia, [] { const VideoFrames frames(PathOf(kFiles[0]), 64, 24); }),
      HasSubstr("expected a video of 64 x 24 pixels, found 32 x 24"));
  EXPECT_THAT(MessageOf(ErrorCode::kMedia,
                        [] {
                          const VideoFrames frames(
                              std::filesystem::path(DPB_SOURCE_DIR) / "README.md", 64, 24);
                        }),
              HasSubstr("README.md"));
}

}  // namespace
}  // namespace dp_bench::media
