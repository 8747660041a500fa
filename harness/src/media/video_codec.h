// The codecs of video in MP4 files that are written, and the encoders of libav for them.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace dp_bench::media {

enum class VideoCodec { kH264, kHevc, kAv1 };

/// "h264", "hevc" or "av1", as libav and LeRobot say.
std::string_view Name(VideoCodec codec);

/// The inverse. Throws Error{kMedia} for other names.
VideoCodec ParseVideoCodec(std::string_view name);

/// The encoder of libav for pictures of this size [px]: libx264; libx265; libsvtav1, or libaom-av1
/// if that is missing or the pictures are too small for it. `is_present` says whether libav has
/// one. Throws Error{kMedia} naming those that it has if there is none.
std::string FindVideoEncoder(VideoCodec codec, int width, int height,
                             const std::function<bool(const std::string&)>& is_present);

/// The same, for the libav that is installed.
std::string FindVideoEncoder(VideoCodec codec, int width, int height);

}  // namespace dp_bench::media
