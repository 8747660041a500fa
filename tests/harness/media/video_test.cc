// The output of the video encoder, read back through the decoder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "dp_bench/error.h"
#include "media/video_encoder.h"
#include "support/error_of.h"
#include "support/file_size_limit.h"
#include "support/images.h"
#include "support/scratch_folder.h"

namespace dp_bench::media {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Measured: 39.9 to 41.1 dB on these frames at crf 18, most of the loss from halved chroma.
constexpr double kMinPsnrDb = 36.0;

class VideoTest : public testing::Test {
 protected:
  // A smooth coloured image with a bright disc that moves to the right.
  static RgbImage Image(int width, int height, int index) {
    RgbImage image(width, height);
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        const double distance = std::hypot(x - 10 - 2 * index, y - height / 2);
        const auto i = 3 * static_cast<std::size_t>(y * width + x);
        image.pixels[i] = static_cast<std::uint8_t>(255 * x / width);
        image.pixels[i + 1] = static_cast<std::uint8_t>(255 * y / height);
        image.pixels[i + 2] =
            static_cast<std::uint8_t>(std::clamp(255.0 - 12.0 * distance, 40.0, 255.0));
      }
    }
    return image;
  }

  void Encode(const fs::path& path, int width, int height, int n_frames, double fps = 10.0) const {
    VideoEncoder encoder(path, {.width = width, .height = height, .fps = fps, .crf = 18});
    for (int i = 0; i < n_frames; ++i) encoder.Write(Image(width, height, i));
    encoder.Finish();
  }

  static double PsnrDb(const RgbImage& a, const RgbImage& b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < a.pixels.size(); ++i) {
      sum += std::pow(static_cast<double>(a.pixels[i]) - b.pixels[i], 2);
    }
    return 10.0 * std::log10(255.0 * 255.0 * static_cast<double>(a.pixels.size()) / sum);
  }

  static std::string Bytes(const fs::path& path) { return core::ReadTextFile(path, 1U << 20); }

  static std::string MediaError(const std::function<void()>& body) {
    return MessageOf(ErrorCode::kMedia, body);
  }

  const ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path();
};

TEST_F(VideoTest, DecodesToTheFramesThatWereWritten) {
  Encode(folder_ / "a.mp4", 96, 64, 25);
  VideoReader reader(folder_ / "a.mp4");
  EXPECT_EQ(reader.width(), 96);
  EXPECT_EQ(reader.height(), 64);
  EXPECT_DOUBLE_EQ(reader.fps(), 10.0);

  const std::vector<RgbImage> frames = FramesOf(folder_ / "a.mp4");
  ASSERT_EQ(frames.size(), 25U);
  for (int i = 0; i < 25; ++i) {
    EXPECT_GT(PsnrDb(frames[static_cast<std::size_t>(i)], Image(96, 64, i)), kMinPsnrDb) << i;
  }
}

TEST_F(VideoTest, OddSizesRepeatTheLastColumnAndRow) {
  Encode(folder_ / "odd.mp4", 97, 63, 3);
  const RgbImage frame = FramesOf(folder_ / "odd.mp4").at(0);
  ASSERT_EQ(frame.width, 98);
  ASSERT_EQ(frame.height, 64);

  const RgbImage image = Image(97, 63, 0);
  RgbImage wanted(98, 64);
  for (int y = 0; y < 64; ++y) {
    for (int x = 0; x < 98; ++x) {
      for (int c = 0; c < 3; ++c) {
        wanted.pixels[static_cast<std::size_t>((y * 98 + x) * 3 + c)] =
            image
                .pixels[static_cast<std::size_t>((std::min(y, 62) * 97 + std::min(x, 96)) * 3 + c)];
      }
    }
  }
  EXPECT_GT(PsnrDb(frame, wanted), kMinPsnrDb);
}

TEST_F(VideoTest, SmallestSizeAndOneFrameWork) {
  Encode(folder_ / "tiny.mp4", 1, 1, 1);
  EXPECT_EQ(FramesOf(folder_ / "tiny.mp4").size(), 1U);
}

TEST_F(VideoTest, EqualFramesGiveEqualFiles) {
  Encode(folder_ / "a.mp4", 64, 64, 12);
  Encode(folder_ / "b.mp4", 64, 64, 12);
  EXPECT_EQ(Bytes(folder_ / "a.mp4"), Bytes(folder_ / "b.mp4"));
}

TEST_F(VideoTest, IndexComesBeforeTheData) {
  Encode(folder_ / "a.mp4", 64, 64, 12);
  const std::string bytes = Bytes(folder_ / "a.mp4");
  const std::size_t index = bytes.find("moov");
  ASSERT_NE(index, std::string::npos);
  EXPECT_LT(index, bytes.find("mdat"));
}

TEST_F(VideoTest, FileAppearsOnlyWhenFinished) {
  {
    VideoEncoder encoder(folder_ / "a.mp4", {.width = 64, .height = 64, .fps = 10.0});
    encoder.Write(Image(64, 64, 0));
    EXPECT_FALSE(fs::exists(folder_ / "a.mp4"));
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(VideoTest, ReplacesAnOlderFile) {
  Encode(folder_ / "a.mp4", 64, 64, 12);
  Encode(folder_ / "a.mp4", 32, 32, 2);
  EXPECT_EQ(VideoReader(folder_ / "a.mp4").width(), 32);
}

TEST_F(VideoTest, WrongFrameSizeNamesBoth) {
  VideoEncoder encoder(folder_ / "a.mp4", {.width = 64, .height = 48, .fps = 10.0});
  EXPECT_EQ(MediaError([&] { encoder.Write(Image(48, 64, 0)); }),
            "the video is 64x48, a frame is 48x64");
}

TEST_F(VideoTest, VideoWithoutFramesIsRefused) {
  VideoEncoder encoder(folder_ / "a.mp4", {.width = 64, .height = 64, .fps = 10.0});
  EXPECT_EQ(MediaError([&] { encoder.Finish(); }), "a video needs at least one frame");
}

TEST_F(VideoTest, ImpossibleOptionsAreRefusedBeforeAFileIsMade) {
  const VideoOptions good = {.width = 64, .height = 64, .fps = 10.0};
  std::vector<VideoOptions> all(6, good);
  all[0].width = 0;
  all[1].height = 1 << 20;
  all[2].fps = 0.0;
  all[3].fps = std::nan("");
  all[4].crf = 52;
  all[5].preset = "no such preset";
  for (const VideoOptions& options : all) {
    MediaError([&] { VideoEncoder(folder_ / "a.mp4", options); });
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(VideoTest, MissingFolderIsNamed) {
  const fs::path path = folder_ / "absent" / "a.mp4";
  EXPECT_THAT(MessageOf(ErrorCode::kIo,
                        [&] { VideoEncoder(path, {.width = 64, .height = 64, .fps = 10.0}); }),
              HasSubstr(path.string()));
}

TEST_F(VideoTest, FullDiskIsAnError) {
  const FileSizeLimit limit(100);
  MediaError([&] { Encode(folder_ / "a.mp4", 64, 64, 12); });
  EXPECT_FALSE(fs::exists(folder_ / "a.mp4"));
}

TEST_F(VideoTest, ReaderNamesAFileThatIsNoVideo) {
  std::ofstream(folder_ / "text.mp4") << "this is not a video";
  std::ofstream(folder_ / "empty.mp4") << "";
  for (const char* name : {"text.mp4", "empty.mp4", "absent.mp4"}) {
    EXPECT_THAT(MediaError([&] { VideoReader reader(folder_ / name); }), HasSubstr(name));
  }
}

TEST_F(VideoTest, ReaderRefusesAFifoAndAPlaylistOfOtherFiles) {
  ASSERT_EQ(::mkfifo((folder_ / "fifo.mp4").c_str(), 0600), 0);
  EXPECT_THAT(MediaError([&] { VideoReader reader(folder_ / "fifo.mp4"); }), HasSubstr("FIFO"));
  Encode(folder_ / "a.mp4", 64, 64, 12);
  std::ofstream(folder_ / "list.mp4") << "ffconcat version 1.0\nfile a.mp4\n";
  std::ofstream(folder_ / "list.m3u8")
      << "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\na.mp4\n#EXT-X-ENDLIST\n";
  for (const char* name : {"list.mp4", "list.m3u8"}) {
    SCOPED_TRACE(name);
    MediaError([&] { VideoReader reader(folder_ / name); });
  }
}

TEST_F(VideoTest, TruncatedFileGivesFewerFramesOrAnError) {
  Encode(folder_ / "a.mp4", 96, 64, 25);
  const std::string bytes = Bytes(folder_ / "a.mp4");
  for (const std::size_t size : {bytes.size() / 4, bytes.size() / 2, bytes.size() - 100}) {
    std::ofstream(folder_ / "short.mp4", std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(size));
    int n_frames = 0;
    try {
      VideoReader reader(folder_ / "short.mp4");
      RgbImage frame(1, 1);
      while (reader.Read(&frame)) ++n_frames;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kMedia);
    }
    EXPECT_LT(n_frames, 25);
  }
}

}  // namespace
}  // namespace dp_bench::media
