#include "media/video_frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dp_bench/error.h"
#include "media/av_ptr.h"
#include "media/mp4_tables.h"

namespace dp_bench::media {
namespace {

// Other containers have no index of all frames.
constexpr const char* kContainers = "mov,mp4,m4a,3gp,3g2,mj2";

// Codecs round the size of a frame up to whole blocks.
constexpr std::int64_t kBlock = 128;

// A decoder keeps reference frames, of at most 16 bits. AV1 has 8 of them, H.264 and HEVC up to 16.
constexpr std::size_t kFramesOfDecoder = 16;

// Decoding this many frames takes as long as the seek itself.
constexpr int kFramesPerSeek = 1;

constexpr double kNone = -std::numeric_limits<double>::infinity();

std::int64_t RoundUp(int size) { return (size + kBlock - 1) / kBlock * kBlock; }

}  // namespace

struct VideoFrames::Stream {
  AvInputPtr input;
  AvCodecPtr decoder;
  AvPacketPtr packet;
  AVStream* video = nullptr;
  double time_base = 0.0;   // [s]
  double time = kNone;      // of the frame in picture_ [s]
  bool is_flushed = false;  // the end of the file was passed on to the decoder

  int n_entries() const { return avformat_index_get_entries_count(video); }
  std::int64_t TimestampOf(int entry) const {
    return avformat_index_get_entry(video, entry)->timestamp;
  }

  // The last entry of the index at or before this time, the first one if there is none. The index
  // is in decoding order, which may differ from the order of the times by a few frames.
  int EntryAt(double at, int flags) const {
    const auto timestamp = static_cast<std::int64_t>(std::llround(at / time_base));
    return std::max(0, av_index_search_timestamp(video, timestamp, AVSEEK_FLAG_BACKWARD | flags));
  }
};

std::size_t VideoFrames::EstimateMemory(int width, int height) {
  // luma and chroma at half the resolution, as in nearly all recordings
  return kFramesOfDecoder * static_cast<std::size_t>(RoundUp(width) * RoundUp(height)) * 3 / 2;
}

VideoFrames::VideoFrames(const std::filesystem::path& path, int width, int height)
    : path_(path), width_(width), height_(height), stream_(std::make_unique<Stream>()) {
  Stream& s = *stream_;
  RequirePlausibleTables(path);
  s.input = OpenInput(path, kContainers);
  const int index =
      AvCheck(av_find_best_stream(s.input.get(), AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0),
              fmt::format("av_find_best_stream({}, video)", path.string()));
  for (unsigned i = 0; i < s.input->nb_streams; ++i) s.input->streams[i]->discard = AVDISCARD_ALL;
  s.video = s.input->streams[index];
  s.video->discard = AVDISCARD_DEFAULT;
  s.time_base = av_q2d(s.video->time_base);

  const AVCodecParameters& parameters = *s.video->codecpar;
  if (parameters.width != width || parameters.height != height) {
    throw Error(ErrorCode::kMedia,
                fmt::format("{}: expected a video of {} x {} pixels, found {} x {}", path.string(),
                            width, height, parameters.width, parameters.height));
  }
  if (s.n_entries() == 0 || s.time_base <= 0.0) {
    throw Error(ErrorCode::kMedia, fmt::format("{}: the video has no frames", path.string()));
  }
  s.decoder = OpenDecoder(parameters, RoundUp(width) * RoundUp(height), path.string());
  s.packet.reset(AvCheckNotNull(av_packet_alloc(), "av_packet_alloc"));
}

VideoFrames::~VideoFrames() = default;

DecodedPicture& VideoFrames::At(double time, double tolerance, const Pass& pass) {
  Stream& s = *stream_;
  if (std::abs(s.time - time) <= tolerance) return picture_;
  if (!IsAheadOf(time)) SeekBefore(time + tolerance);

  double before = kNone;
  while (s.time < time - tolerance) {
    before = s.time;
    if (pass && s.time != kNone) pass(s.time, picture_);
    if (!Next()) {
      throw Error(ErrorCode::kMedia, fmt::format("{}: expected a frame at {:.6f} s, but the last "
                                                 "frame is at {:.6f} s",
                                                 path_.string(), time, before));
    }
  }
  if (s.time > time + tolerance) {
    throw Error(
        ErrorCode::kMedia,
        fmt::format("{}: expected a frame at {:.6f} s, found {}the next one at {:.6f} s; the "
                    "tolerance is {} s",
                    path_.string(), time,
                    before == kNone ? "" : fmt::format("one at {:.6f} s and ", before), s.time,
                    tolerance));
  }
  return picture_;
}

// Whether reading on decodes no more frames than a jump to the key frame.
bool VideoFrames::IsAheadOf(double time) const {
  const Stream& s = *stream_;
  if (s.time == kNone || s.time > time) return false;
  const int wanted = s.EntryAt(time, AVSEEK_FLAG_ANY);
  const int from_here = wanted - s.EntryAt(s.time, AVSEEK_FLAG_ANY);
  const int from_key = wanted - s.EntryAt(time, 0) + 1;
  return from_here <= from_key + kFramesPerSeek;
}

// Decodes the last key frame that is shown at or before `time`, or the first one.
void VideoFrames::SeekBefore(double time) {
  Stream& s = *stream_;
  int key = s.EntryAt(time, 0);
  while (true) {
    const std::int64_t timestamp = s.TimestampOf(key);
    AvCheck(av_seek_frame(s.input.get(), s.video->index, timestamp, AVSEEK_FLAG_BACKWARD),
            fmt::format("av_seek_frame({})", path_.string()));
    avcodec_flush_buffers(s.decoder.get());
    s.is_flushed = false;
    s.time = kNone;
    if (!Next()) {
      throw Error(ErrorCode::kMedia,
                  fmt::format("{}: no frame can be decoded after {:.6f} s", path_.string(),
                              static_cast<double>(timestamp) * s.time_base));
    }
    // a key frame may be stored before frames that are shown earlier
    if (s.time <= time || key == 0) return;
    key = std::max(0, av_index_search_timestamp(s.video, timestamp - 1, AVSEEK_FLAG_BACKWARD));
  }
}

// Decodes the next frame. False at the end of the file.
bool VideoFrames::Next() {
  Stream& s = *stream_;
  s.time = kNone;  // also if something fails below
  AVFrame* frame = picture_.frame();
  while (true) {
    const int result = avcodec_receive_frame(s.decoder.get(), frame);
    if (result == AVERROR_EOF) return false;
    if (result >= 0) break;
    if (result != AVERROR(EAGAIN) || s.is_flushed) {
      AvCheck(result, fmt::format("avcodec_receive_frame({})", path_.string()));
    }

    // the decoder needs the next packet, or an empty one at the end
    const int read = av_read_frame(s.input.get(), s.packet.get());
    if (read != AVERROR_EOF) AvCheck(read, fmt::format("av_read_frame({})", path_.string()));
    s.is_flushed = read == AVERROR_EOF;
    int sent = 0;
    if (s.is_flushed || s.packet->stream_index == s.video->index) {
      sent = avcodec_send_packet(s.decoder.get(), s.is_flushed ? nullptr : s.packet.get());
    }
    av_packet_unref(s.packet.get());
    AvCheck(sent, fmt::format("avcodec_send_packet({})", path_.string()));
  }
  if (frame->width != width_ || frame->height != height_) {
    throw Error(ErrorCode::kMedia,
                fmt::format("{}: expected frames of {} x {} pixels, found {} x {}", path_.string(),
                            width_, height_, frame->width, frame->height));
  }
  if ((frame->flags & AV_FRAME_FLAG_CORRUPT) != 0 || frame->decode_error_flags != 0) {
    throw Error(ErrorCode::kMedia, fmt::format("{}: damaged data", path_.string()));
  }
  s.time = static_cast<double>(frame->best_effort_timestamp) * s.time_base;
  ++n_decoded_;
  return true;
}

}  // namespace dp_bench::media
