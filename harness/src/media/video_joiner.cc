#include "media/video_joiner.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "core/errors.h"
#include "media/av_ptr.h"

namespace dp_bench::media {
namespace {

constexpr std::int64_t kMaxCopiedPixels = std::int64_t{1} << 28;
constexpr int kRateDenominator = 100'000;

// Reads the compressed frames of a part in the order in which they are stored. Their times become
// numbers of frames, where 0 is the first frame of the part.
class PartReader {
 public:
  PartReader(const VideoPart& part, double fps)
      : part_(part),
        fps_(fps),
        video_(OpenMp4(part.file, kMaxCopiedPixels)),
        is_seen_(Count(part.n_frames)) {
    packet_.reset(AvCheckNotNull(av_packet_alloc(), "av_packet_alloc"));
    FindFirst();
  }

  const AVCodecParameters& parameters() const { return *video_.stream->codecpar; }

  // Valid until Next.
  AVPacket& packet() { return *packet_; }

  // False after the last frame.
  bool Next() {
    if (++n_read_ == part_.n_frames) return false;
    if (!ReadPacket()) Refuse(fmt::format("the file ends after {} frames", n_read_));
    Use();
    return true;
  }

 private:
  static std::size_t Count(std::int64_t n) { return static_cast<std::size_t>(n); }

  [[noreturn]] void Refuse(const std::string& what) const {
    throw MediaError("{}: cannot copy {} frames from {:.6f} s: {}", part_.file.string(),
                     part_.n_frames, part_.from_time, what);
  }

  // In frames of the part.
  double PlaceOf(std::int64_t timestamp) const {
    const double time = static_cast<double>(timestamp) * av_q2d(video_.stream->time_base);
    return (time - part_.from_time) * fps_;
  }

  bool ReadPacket() {
    while (true) {
      av_packet_unref(packet_.get());
      const int result = av_read_frame(video_.file.get(), packet_.get());
      if (result == AVERROR_EOF) return false;
      AvCheck(result, fmt::format("av_read_frame({})", part_.file.string()));
      if (packet_->stream_index != video_.stream->index) continue;
      if (packet_->pts == AV_NOPTS_VALUE || packet_->dts == AV_NOPTS_VALUE) {
        Refuse("a frame has no time");
      }
      return true;
    }
  }

  // Seeks to key frames, one after another backwards, until the first frame is not before it.
  void FindFirst() {
    const double time_base = av_q2d(video_.stream->time_base);
    auto timestamp = static_cast<std::int64_t>(std::llround(part_.from_time / time_base));
    while (true) {
      const int result =
          av_seek_frame(video_.file.get(), video_.stream->index, timestamp, AVSEEK_FLAG_BACKWARD);
      AvCheck(result, fmt::format("av_seek_frame({})", part_.file.string()));
      if (!ReadPacket()) Refuse("there is no frame at this time");
      if (PlaceOf(packet_->pts) <= kMaxFrameOffset) break;
      if (packet_->dts > timestamp) Refuse("there is no frame at this time");
      timestamp = packet_->dts - 1;
    }
    while (std::abs(PlaceOf(packet_->pts)) > kMaxFrameOffset) {
      if (PlaceOf(packet_->dts) > kMaxFrameOffset || !ReadPacket()) {
        Refuse("there is no frame at this time");
      }
    }
    if ((packet_->flags & AV_PKT_FLAG_KEY) == 0) {
      Refuse("the first frame is no key frame; encode the video again");
    }
    Use();
  }

  void Use() {
    const double place = PlaceOf(packet_->pts);
    const auto frame = static_cast<std::int64_t>(std::llround(place));
    if (std::abs(place - static_cast<double>(frame)) > kMaxFrameOffset) {
      Refuse(fmt::format("a frame is at {:.6f} s, which is no multiple of 1 / {} s",
                         part_.from_time + place / fps_, fps_));
    }
    if (frame < 0 || frame >= part_.n_frames) {
      Refuse("frames of other episodes are stored between them; encode the video again");
    }
    if (is_seen_[Count(frame)]) Refuse(fmt::format("frame {} occurs twice", frame));
    is_seen_[Count(frame)] = true;
    packet_->dts = std::llround(PlaceOf(packet_->dts));
    packet_->pts = frame;
    packet_->duration = 1;
    packet_->pos = -1;
  }

  const VideoPart& part_;
  double fps_;
  InputVideo video_;
  AvPacketPtr packet_;
  std::vector<bool> is_seen_;
  std::int64_t n_read_ = 0;
};

bool HaveEqualSettings(const AVCodecParameters& a, const AVCodecParameters& b) {
  return a.codec_id == b.codec_id && a.width == b.width && a.height == b.height &&
         a.extradata_size == b.extradata_size &&
         (a.extradata_size == 0 ||
          std::memcmp(a.extradata, b.extradata, static_cast<std::size_t>(a.extradata_size)) == 0);
}

}  // namespace

struct VideoJoiner::Output {
  AvOutputPtr file;
  AVRational frame = {0, 1};                                         // [s]
  AVStream* video = nullptr;                                         // none before the first part
  std::int64_t last_dts = std::numeric_limits<std::int64_t>::min();  // [frames]
};

VideoJoiner::VideoJoiner(std::filesystem::path path, double fps)
    : path_(std::move(path)), fps_(fps), output_(std::make_unique<Output>()) {
  QuietLibav();
  output_->frame = av_inv_q(av_d2q(fps, kRateDenominator));
  output_->file = OpenOutput(path_, "mp4");
}

VideoJoiner::~VideoJoiner() = default;

bool VideoJoiner::TryAppend(const VideoPart& part) {
  DPB_ASSERT(part.n_frames > 0);
  Output& out = *output_;
  PartReader reader(part, fps_);
  if (out.video == nullptr) {
    out.video = AvCheckNotNull(avformat_new_stream(out.file.get(), nullptr), "avformat_new_stream");
    AvCheck(avcodec_parameters_copy(out.video->codecpar, &reader.parameters()),
            "avcodec_parameters_copy");
    out.video->codecpar->codec_tag = 0;  // the one of MP4
    out.video->codecpar->bit_rate = 0;   // that of the other file; MP4 measures its own
    out.video->time_base = out.frame;
    out.video->avg_frame_rate = av_inv_q(out.frame);
    WriteMp4Header(out.file.get());
  } else if (!HaveEqualSettings(*out.video->codecpar, reader.parameters()) ||
             reader.packet().dts + n_frames_ <= out.last_dts) {
    return false;
  }
  do {
    AVPacket& packet = reader.packet();
    packet.pts += n_frames_;
    packet.dts += n_frames_;
    if (packet.dts <= out.last_dts) {
      throw MediaError("{}: two frames are to be decoded at one time", part.file.string());
    }
    out.last_dts = packet.dts;
    packet.stream_index = out.video->index;
    av_packet_rescale_ts(&packet, out.frame, out.video->time_base);
    AvCheck(av_interleaved_write_frame(out.file.get(), &packet),
            fmt::format("av_interleaved_write_frame({})", path_.string()));
  } while (reader.Next());
  n_frames_ += part.n_frames;
  return true;
}

std::int64_t VideoJoiner::n_bytes() const { return avio_tell(output_->file->pb); }

void VideoJoiner::Finish() {
  DPB_ASSERT(n_frames_ > 0);
  AvCheck(av_write_trailer(output_->file.get()), "av_write_trailer");
  AvCheck(avio_closep(&output_->file->pb), fmt::format("avio_close({})", path_.string()));
}

std::string VideoCodecOf(const std::filesystem::path& path) {
  return avcodec_get_name(OpenMp4(path, kMaxCopiedPixels).stream->codecpar->codec_id);
}

}  // namespace dp_bench::media
