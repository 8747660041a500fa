// Compressed frames that are copied, of files that LeRobot wrote, and the encoders that are chosen.
#include "media/video_joiner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "core/temporary_folder.h"
#include "media/av_ptr.h"
#include "media/video_encoder.h"
#include "media/video_frames.h"
#include "support/error_of.h"

namespace dp_bench::media {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

// Three episodes of 12, 9 and 12 frames in one file.
struct Recording {
  const char* path;  // below tests/data/lerobot
  double fps;
  const char* codec;
};

constexpr std::array<Recording, 3> kRecordings = {
    {{"v30_av1/videos/observation.images.top/chunk-000/file-000.mp4", 10.0, "av1"},
     {"v30_hevc/videos/observation.images.top/chunk-000/file-000.mp4", 60.0, "hevc"},
     {"v30_av1/videos/observation.depth/chunk-000/file-000.mp4", 10.0, "hevc"}}};
constexpr std::array<std::int64_t, 3> kLengths = {12, 9, 12};

// One episode per file.
constexpr const char* kH264 = "v30_h264/videos/observation.images.top/chunk-000/file-00";
constexpr double kH264Fps = 7.0;

fs::path Recorded(const std::string& path) {
  return fs::path(DPB_SOURCE_DIR) / "tests/data/lerobot" / path;
}

// The compressed frames of a file, as they are stored.
std::vector<std::string> PacketsOf(const fs::path& file) {
  const InputVideo input = OpenMp4(file, std::int64_t{1} << 28);
  const AvPacketPtr packet(av_packet_alloc());
  std::vector<std::string> packets;
  while (av_read_frame(input.file.get(), packet.get()) >= 0) {
    packets.emplace_back(reinterpret_cast<const char*>(packet->data),
                         static_cast<std::size_t>(packet->size));
    av_packet_unref(packet.get());
  }
  return packets;
}

void Join(const fs::path& file, double fps, std::span<const VideoPart> parts) {
  VideoJoiner joiner(file, fps);
  for (const VideoPart& part : parts) ASSERT_TRUE(joiner.TryAppend(part));
  joiner.Finish();
}

TEST(VideoJoiner, ApartAndTogetherGivesTheSameFrames) {
  const core::TemporaryFolder folder;
  for (const Recording& recording : kRecordings) {
    const fs::path source = Recorded(recording.path);
    std::vector<VideoPart> parts;
    std::vector<std::string> packets;
    std::int64_t begin = 0;
    for (const std::int64_t n : kLengths) {
      const VideoPart part = {source, static_cast<double>(begin) / recording.fps, n};
      const fs::path file = folder.path() / (std::to_string(begin) + ".mp4");
      Join(file, recording.fps, std::span(&part, 1));
      for (const std::string& packet : PacketsOf(file)) packets.push_back(packet);
      parts.push_back({file, 0.0, n});
      begin += n;
    }
    EXPECT_THAT(packets, ElementsAreArray(PacketsOf(source))) << recording.path;
    const fs::path joined = folder.path() / "joined.mp4";
    Join(joined, recording.fps, parts);
    EXPECT_THAT(packets, ElementsAreArray(PacketsOf(joined))) << recording.path;
    EXPECT_EQ(VideoCodecOf(joined), recording.codec);
    VideoFrames frames(joined, 32, 24);
    for (std::int64_t i = 0; i < begin; ++i) {
      frames.At(static_cast<double>(i) / recording.fps, 1e-4);
    }
  }
}

TEST(VideoJoiner, FramesOfOtherSettingsAreNotTaken) {
  const core::TemporaryFolder folder;
  VideoJoiner joiner(folder.path() / "joined.mp4", kRecordings[0].fps);
  EXPECT_TRUE(joiner.TryAppend({Recorded(kRecordings[0].path), 0.0, 12}));
  EXPECT_FALSE(joiner.TryAppend({Recorded(kRecordings[2].path), 0.0, 12}));
  EXPECT_EQ(joiner.n_frames(), 12);
}

TEST(VideoJoiner, WhatCannotBeCopiedIsNamed) {
  const core::TemporaryFolder folder;
  const fs::path h264 = Recorded(std::string(kH264) + "0.mp4");
  const auto refusal = [&](const VideoPart& part, double fps = kH264Fps) {
    return MessageOf(ErrorCode::kMedia,
                     [&] { VideoJoiner(folder.path() / "joined.mp4", fps).TryAppend(part); });
  };
  EXPECT_THAT(refusal({h264, 1 / kH264Fps, 3}),
              AllOf(HasSubstr("file-000.mp4"), HasSubstr("no key frame")));
  EXPECT_THAT(refusal({h264, 0.0, 4}), HasSubstr("other episodes"));
  EXPECT_THAT(refusal({h264, 0.0, 13}), HasSubstr("ends after 12 frames"));
  EXPECT_THAT(refusal({h264, 100.0, 1}), HasSubstr("no frame at this time"));
  EXPECT_THAT(refusal({h264, 0.0, 12}, 12.0), HasSubstr("no multiple"));
  EXPECT_THAT(refusal({h264, 0.0, 12}, 2 * kH264Fps), HasSubstr("other episodes"));
  std::ofstream(folder.path() / "text.mp4") << "no video";
  EXPECT_THAT(refusal({folder.path() / "text.mp4", 0.0, 1}), HasSubstr("text.mp4"));
}

TEST(VideoCodec, TheEncoderFitsTheImages) {
  const auto all = [](const std::string&) { return true; };
  EXPECT_EQ(FindVideoEncoder(VideoCodec::kH264, 1, 1, all), "libx264");
  EXPECT_EQ(FindVideoEncoder(VideoCodec::kHevc, 16, 16, all), "libx265");
  EXPECT_EQ(FindVideoEncoder(VideoCodec::kAv1, 64, 64, all), "libsvtav1");
  EXPECT_EQ(FindVideoEncoder(VideoCodec::kAv1, 640, 62, all), "libaom-av1");
  for (const VideoCodec codec : {VideoCodec::kH264, VideoCodec::kHevc, VideoCodec::kAv1}) {
    EXPECT_EQ(ParseVideoCodec(Name(codec)), codec);
  }
  MessageOf(ErrorCode::kMedia, [] { ParseVideoCodec("vp9"); });
}

TEST(VideoCodec, AMissingEncoderIsNamedWithThoseThatAreThere) {
  const auto only_x264 = [](const std::string& name) { return name == "libx264"; };
  EXPECT_THAT(MessageOf(ErrorCode::kMedia,
                        [&] { FindVideoEncoder(VideoCodec::kAv1, 640, 480, only_x264); }),
              AllOf(HasSubstr("av1 of 640 x 480"), HasSubstr("libsvtav1"),
                    HasSubstr("this libavcodec has libx264 (h264)")));
  EXPECT_THAT(
      MessageOf(
          ErrorCode::kMedia,
          [] { FindVideoEncoder(VideoCodec::kHevc, 8, 8, [](const auto&) { return false; }); }),
      AllOf(HasSubstr("libx265 for 16 pixels or more"), HasSubstr("has none")));
}

// An image that differs from frame to frame.
RgbImage Slope(int side, int index) {
  RgbImage image(side, side);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    image.pixels[i] = static_cast<std::uint8_t>(static_cast<int>(i) / side + 20 * index);
  }
  return image;
}

class EachEncoder : public ::testing::TestWithParam<std::pair<VideoCodec, int>> {};

TEST_P(EachEncoder, EqualFramesGiveEqualFilesWithKeyFramesWhereTheyAreAsked) {
  const core::TemporaryFolder folder;
  const auto [codec, side] = GetParam();
  const auto encode = [&, codec = codec, side = side](const fs::path& file) {
    VideoEncoder encoder(file, {.width = side,
                                .height = side,
                                .fps = 12.5,
                                .codec = codec,
                                .crf = 30,
                                .preset = codec == VideoCodec::kAv1 ? "12" : "medium",
                                .key_frame_every = 2});
    for (int i = 0; i < 7; ++i) encoder.Write(Slope(side, i));
    encoder.Finish();
    return PacketsOf(file);
  };
  EXPECT_THAT(encode(folder.path() / "a.mp4"), ElementsAreArray(encode(folder.path() / "b.mp4")));
  EXPECT_EQ(VideoCodecOf(folder.path() / "a.mp4"), Name(codec));
  VideoFrames frames(folder.path() / "a.mp4", side, side);
  for (const int i : {6, 4, 2, 0}) frames.At(i / 12.5, 1e-4);
  EXPECT_LE(frames.n_decoded(), 12);  // 16 without key frames after the first
}

INSTANTIATE_TEST_SUITE_P(
    All, EachEncoder,
    ::testing::Values(std::pair{VideoCodec::kH264, 16}, std::pair{VideoCodec::kHevc, 16},
                      std::pair{VideoCodec::kAv1, 16}, std::pair{VideoCodec::kAv1, 64}),
    [](const auto& encoder) {
      return std::string(Name(encoder.param.first)) + "_" + std::to_string(encoder.param.second);
    });

}  // namespace
}  // namespace dp_bench::media
