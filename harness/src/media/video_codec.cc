#include "media/video_codec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "dp_bench/error.h"
#include "media/av_ptr.h"

namespace dp_bench::media {
namespace {

struct KnownEncoder {
  VideoCodec codec;
  const char* name;
  int min_side;  // [px] of pictures that it accepts
};

// The first one that fits is taken.
constexpr std::array<KnownEncoder, 4> kKnownEncoders = {{{VideoCodec::kH264, "libx264", 1},
                                                         {VideoCodec::kHevc, "libx265", 16},
                                                         {VideoCodec::kAv1, "libsvtav1", 64},
                                                         {VideoCodec::kAv1, "libaom-av1", 1}}};

constexpr std::array kCodecs = {VideoCodec::kH264, VideoCodec::kHevc, VideoCodec::kAv1};

}  // namespace

std::string_view Name(VideoCodec codec) {
  switch (codec) {
    case VideoCodec::kH264:
      return "h264";
    case VideoCodec::kHevc:
      return "hevc";
    case VideoCodec::kAv1:
      return "av1";
  }
  return "?";
}

VideoCodec ParseVideoCodec(std::string_view name) {
  for (const VideoCodec codec : kCodecs) {
    if (Name(codec) == name) return codec;
  }
  throw Error(ErrorCode::kMedia, fmt::format("expected h264, hevc or av1, found '{}'", name));
}

std::string FindVideoEncoder(VideoCodec codec, int width, int height,
                             const std::function<bool(const std::string&)>& is_present) {
  std::vector<std::string> wanted;
  std::vector<std::string> present;
  for (const KnownEncoder& known : kKnownEncoders) {
    if (is_present(known.name)) {
      present.push_back(fmt::format("{} ({})", known.name, Name(known.codec)));
    }
    if (known.codec != codec) continue;
    if (is_present(known.name) && std::min(width, height) >= known.min_side) return known.name;
    wanted.push_back(fmt::format("{} for {} pixels or more", known.name, known.min_side));
  }
  throw Error(ErrorCode::kMedia,
              fmt::format("no encoder makes {} of {} x {} pixels: expected {}; this libavcodec has "
                          "{}. Choose another codec.",
                          Name(codec), width, height, fmt::join(wanted, ", or "),
                          present.empty() ? "none" : fmt::format("{}", fmt::join(present, ", "))));
}

std::string FindVideoEncoder(VideoCodec codec, int width, int height) {
  return FindVideoEncoder(codec, width, height, [](const std::string& name) {
    return avcodec_find_encoder_by_name(name.c_str()) != nullptr;
  });
}

}  // namespace dp_bench::media
