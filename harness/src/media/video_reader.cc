#include "media/video_reader.h"

#include <fmt/format.h>

#include <array>

#include "media/av_ptr.h"

namespace dp_bench::media {
namespace {

constexpr std::int64_t kMaxPixels = std::int64_t{1} << 28;  // refuses frames that are memory bombs

}  // namespace

struct VideoReader::Stream {
  AvInputPtr input;
  AvCodecPtr decoder;
  AvScalerPtr scaler;
  AvFramePtr frame;
  AvPacketPtr packet;
  int index = 0;  // of the video stream
  bool is_flushed = false;
};

namespace {

// The formats of films and pictures.
constexpr const char* kContainers = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,gif,image2,png_pipe";

}  // namespace

VideoReader::VideoReader(const std::filesystem::path& path)
    : path_(path), stream_(std::make_unique<Stream>()) {
  stream_->input = OpenInput(path, kContainers);
  AVFormatContext* input = stream_->input.get();
  AvCheck(avformat_find_stream_info(input, nullptr),
          fmt::format("avformat_find_stream_info({})", path.string()));
  stream_->index = AvCheck(av_find_best_stream(input, AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0),
                           fmt::format("av_find_best_stream({}, video)", path.string()));
  stream_->decoder =
      OpenDecoder(*input->streams[stream_->index]->codecpar, kMaxPixels, path.string());
  stream_->frame.reset(AvCheckNotNull(av_frame_alloc(), "av_frame_alloc"));
  stream_->packet.reset(AvCheckNotNull(av_packet_alloc(), "av_packet_alloc"));
}

VideoReader::~VideoReader() = default;

int VideoReader::width() const { return stream_->decoder->width; }
int VideoReader::height() const { return stream_->decoder->height; }
double VideoReader::fps() const {
  return av_q2d(stream_->input->streams[stream_->index]->avg_frame_rate);
}

bool VideoReader::Read(RgbImage* frame) {
  Stream& s = *stream_;
  while (true) {
    const int result = avcodec_receive_frame(s.decoder.get(), s.frame.get());
    if (result == AVERROR_EOF) return false;
    if (result >= 0) break;
    if (result != AVERROR(EAGAIN) || s.is_flushed) {
      AvCheck(result, fmt::format("avcodec_receive_frame({})", path_.string()));
    }

    // the decoder needs more data: feed it the next packet of the stream, or an empty one at the
    // end
    const int read = av_read_frame(s.input.get(), s.packet.get());
    if (read != AVERROR_EOF) AvCheck(read, fmt::format("av_read_frame({})", path_.string()));
    s.is_flushed = read == AVERROR_EOF;
    if (s.is_flushed || s.packet->stream_index == s.index) {
      AvCheck(avcodec_send_packet(s.decoder.get(), s.is_flushed ? nullptr : s.packet.get()),
              fmt::format("avcodec_send_packet({})", path_.string()));
    }
    av_packet_unref(s.packet.get());
  }

  // the frame size may change within a stream; the scaler is then rebuilt
  const AVFrame& yuv = *s.frame;
  s.scaler.reset(AvCheckNotNull(
      sws_getCachedContext(s.scaler.release(), yuv.width, yuv.height,
                           static_cast<AVPixelFormat>(yuv.format), yuv.width, yuv.height,
                           AV_PIX_FMT_RGB24, SWS_BICUBIC | SWS_ACCURATE_RND | SWS_BITEXACT, nullptr,
                           nullptr, nullptr),
      "sws_getCachedContext"));
  if (frame->width != yuv.width || frame->height != yuv.height) {
    *frame = RgbImage(yuv.width, yuv.height);
  }
  const std::array<std::uint8_t*, 1> planes = {frame->pixels.data()};
  const std::array<int, 1> strides = {3 * yuv.width};
  AvCheck(sws_scale(s.scaler.get(), yuv.data, yuv.linesize, 0, yuv.height, planes.data(),
                    strides.data()),
          "sws_scale");
  return true;
}

}  // namespace dp_bench::media
