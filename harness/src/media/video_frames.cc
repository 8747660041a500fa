#include "media/video_frames.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/errors.h"
#include "media/av_ptr.h"

namespace dp_bench::media {
namespace {

// Codecs round the size of a frame up to whole blocks.
constexpr std::int64_t kBlock = 128;

// A decoder keeps reference frames, of at most 16 bits. AV1 has 8 of them, H.264 and HEVC up to 16.
constexpr std::size_t kFramesOfDecoder = 16;

// Decoding this many frames takes as long as the seek itself.
constexpr int kFramesPerSeek = 1;

// Videos and images, also from elsewhere.
constexpr const char* kVideoContainers =
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,gif,image2,png_pipe";
constexpr std::int64_t kMaxVideoPixels = std::int64_t{1} << 28;

constexpr double kNone = -std::numeric_limits<double>::infinity();

std::int64_t RoundUp(int size) { return (size + kBlock - 1) / kBlock * kBlock; }

// What a decoder may allocate for one frame. MPEG-4 part 2 also needs rows with room for motion
// across the edges, at least this many.
std::int64_t MaxPixels(int width, int height) {
  constexpr std::int64_t kRowsOfScratch = 280;
  return (RoundUp(width) + kBlock) * std::max(RoundUp(height), kRowsOfScratch);
}

}  // namespace

// A decoded frame; none if the time is kNone.
struct VideoFrames::Shown {
  double time = kNone;  // [s]
  DecodedImage image{SWS_BILINEAR};
};

struct VideoFrames::Stream {
  Stream(const std::filesystem::path& path, std::int64_t max_pixels)
      : reader(OpenMp4(path, max_pixels), path, max_pixels),
        video(reader.stream()),
        time_base(av_q2d(video->time_base)) {}

  FrameReader reader;
  AVStream* video;
  double time_base;       // [s]
  double before = kNone;  // the time of the frame before `frame`, if it was decoded [s]
  std::unique_ptr<Shown> frame = std::make_unique<Shown>();
  std::unique_ptr<Shown> next = std::make_unique<Shown>();  // after `frame`

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
    : path_(path),
      width_(width),
      height_(height),
      stream_(std::make_unique<Stream>(path, MaxPixels(width, height))) {
  const Stream& s = *stream_;
  const AVCodecParameters& parameters = *s.video->codecpar;
  if (parameters.width != width || parameters.height != height) {
    throw MediaError("{}: expected a video of {} x {} pixels, found {} x {}", path.string(), width,
                     height, parameters.width, parameters.height);
  }
  if (s.n_entries() == 0 || s.time_base <= 0.0) {
    throw MediaError("{}: the video has no frames", path.string());
  }
}

VideoFrames::~VideoFrames() = default;

DecodedImage& VideoFrames::At(double time, double tolerance, const Pass& pass) {
  Shown& found = Nearest(time, pass);
  if (std::abs(found.time - time) <= tolerance) return found.image;
  throw MediaError(
      "{}: expected a frame at {:.6f} s, but the nearest one is at {:.6f} s; the tolerance is {} "
      "s. Frames are missing, or the video has another rate or begins elsewhere than meta/ says",
      path_.string(), time, found.time, tolerance);
}

// Whether no other frame can be nearer: times of frames differ by at least one unit.
bool VideoFrames::IsNearest(const Shown& frame, double time) const {
  return 2.0 * std::abs(frame.time - time) < stream_->time_base;
}

VideoFrames::Shown& VideoFrames::Nearest(double time, const Pass& pass) {
  Stream& s = *stream_;
  if (!IsAheadOf(time)) SeekBefore(time);
  while (!IsNearest(*s.frame, time) && s.frame->time < time) {
    if (s.next->time == kNone && !Decode(s.next.get())) break;
    if (s.next->time > time)
      return time - s.frame->time <= s.next->time - time ? *s.frame : *s.next;
    if (pass) {
      const double gap = s.before == kNone ? s.time_base : s.frame->time - s.before;
      pass(s.frame->time, std::min(gap, s.next->time - s.frame->time) / 2.0, s.frame->image);
    }
    s.before = s.frame->time;
    std::swap(s.frame, s.next);
    s.next->time = kNone;
  }
  return *s.frame;
}

// Whether reading on decodes no more frames than a jump to the key frame.
bool VideoFrames::IsAheadOf(double time) const {
  const Stream& s = *stream_;
  if (s.frame->time == kNone) return false;
  if (IsNearest(*s.frame, time)) return true;
  if (s.frame->time > time) return false;
  if (s.next->time > time) return true;
  const int wanted = s.EntryAt(time, AVSEEK_FLAG_ANY);
  const int from_here = wanted - s.EntryAt(std::max(s.frame->time, s.next->time), AVSEEK_FLAG_ANY);
  const int from_key = wanted - s.EntryAt(time, 0) + 1;
  return from_here <= from_key + kFramesPerSeek;
}

// Decodes the last key frame that is shown at or before `time`, or the first one.
void VideoFrames::SeekBefore(double time) {
  Stream& s = *stream_;
  int key = s.EntryAt(time, 0);
  while (true) {
    const std::int64_t timestamp = s.TimestampOf(key);
    s.reader.Seek(timestamp);
    s.before = s.frame->time = s.next->time = kNone;
    if (!Decode(s.frame.get())) {
      throw MediaError("{}: no frame can be decoded after {:.6f} s", path_.string(),
                       static_cast<double>(timestamp) * s.time_base);
    }
    // a key frame may be stored before frames that are shown earlier
    if (s.frame->time <= time || IsNearest(*s.frame, time) || key == 0) return;
    key = std::max(0, av_index_search_timestamp(s.video, timestamp - 1, AVSEEK_FLAG_BACKWARD));
  }
}

// Decodes the next frame that is shown later than `frame`. False at the end of the file.
bool VideoFrames::Decode(Shown* shown) {
  Stream& s = *stream_;
  const double last = std::exchange(s.frame->time, kNone);  // also if something fails below
  double time = last;
  bool is_there = true;
  while (is_there && time <= last) {  // of frames at the same time, the first one counts
    is_there = Receive(shown->image);
    if (is_there)
      time = static_cast<double>(shown->image.frame()->best_effort_timestamp) * s.time_base;
    if (time < last) {
      throw MediaError("{}: a frame at {:.6f} s follows one at {:.6f} s", path_.string(), time,
                       last);
    }
  }
  s.frame->time = last;
  if (is_there) shown->time = time;
  return is_there;
}

// The frame that the decoder delivers next. False at the end of the file.
bool VideoFrames::Receive(DecodedImage& image) {
  AVFrame* frame = image.frame();
  if (!stream_->reader.Read(frame)) return false;
  if (frame->width != width_ || frame->height != height_) {
    throw MediaError("{}: expected frames of {} x {} pixels, found {} x {}", path_.string(), width_,
                     height_, frame->width, frame->height);
  }
  if ((frame->flags & AV_FRAME_FLAG_CORRUPT) != 0 || frame->decode_error_flags != 0) {
    throw MediaError("{}: damaged data", path_.string());
  }
  ++n_decoded_;
  return true;
}

struct VideoReader::Stream {
  explicit Stream(const std::filesystem::path& path)
      : reader(OpenVideo(path, kVideoContainers, kMaxVideoPixels), path, kMaxVideoPixels) {}

  FrameReader reader;
  DecodedImage image{SWS_BICUBIC | SWS_ACCURATE_RND | SWS_BITEXACT};  // equal bits everywhere
};

VideoReader::VideoReader(const std::filesystem::path& path)
    : stream_(std::make_unique<Stream>(path)) {}

VideoReader::~VideoReader() = default;

int VideoReader::width() const { return stream_->reader.stream()->codecpar->width; }
int VideoReader::height() const { return stream_->reader.stream()->codecpar->height; }
double VideoReader::fps() const { return av_q2d(stream_->reader.stream()->avg_frame_rate); }

bool VideoReader::Read(RgbImage* image) {
  DecodedImage& decoded = stream_->image;
  if (!stream_->reader.Read(decoded.frame())) return false;
  if (image->width != decoded.width() || image->height != decoded.height()) {
    *image = RgbImage(decoded.width(), decoded.height());
  }
  decoded.ToRgb(image->pixels);
  return true;
}

}  // namespace dp_bench::media
