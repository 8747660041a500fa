#include "media/video_encoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "core/errors.h"
#include "media/av_ptr.h"

namespace dp_bench::media {

namespace {

struct KnownEncoder {
  VideoCodec codec;
  const char* name;
  int min_side;  // [px] of images that it accepts
};

// The first one that fits is taken.
constexpr std::array<KnownEncoder, 4> kKnownEncoders = {{{VideoCodec::kH264, "libx264", 1},
                                                         {VideoCodec::kHevc, "libx265", 16},
                                                         {VideoCodec::kAv1, "libsvtav1", 64},
                                                         {VideoCodec::kAv1, "libaom-av1", 1}}};

// In the order of the enum.
constexpr std::array<std::string_view, 3> kCodecNames = {"h264", "hevc", "av1"};

constexpr int kMaxVideoSize = 16384;  // [px]; H.264 level 6.2 ends there

int RoundUpToEven(int size) { return size + size % 2; }

void CheckOptions(const VideoOptions& options) {
  const auto fits = [](int size) { return size >= 1 && size <= kMaxVideoSize; };
  if (!fits(options.width) || !fits(options.height) || !std::isfinite(options.fps) ||
      options.fps < 0.01 || options.fps > 1000.0 || options.crf < 0 || options.crf > 51) {
    throw MediaError(
        "cannot encode {}x{} at {} frames/s with crf {}; sizes are 1 to {}, frame rates 0.01 to "
        "1000, crf 0 to 51",
        options.width, options.height, options.fps, options.crf, kMaxVideoSize);
  }
}

// Repeats the last column and row where `to` is larger.
void CopyPadded(const RgbImage& from, RgbImage* to) {
  const auto pixel = [](const RgbImage& image, int x, int y) {
    return 3 * (static_cast<std::size_t>(y) * static_cast<std::size_t>(image.width) +
                static_cast<std::size_t>(x));
  };
  for (int y = 0; y < to->height; ++y) {
    for (int x = 0; x < to->width; ++x) {
      const std::size_t source =
          pixel(from, std::min(x, from.width - 1), std::min(y, from.height - 1));
      std::copy_n(&from.pixels[source], 3, &to->pixels[pixel(*to, x, y)]);
    }
  }
}

bool IsGif(const std::filesystem::path& path) { return path.extension() == ".gif"; }

AvCodecPtr MakeEncoder(const AVCodec* codec, const VideoOptions& options) {
  AvCodecPtr encoder(AvCheckNotNull(avcodec_alloc_context3(codec), "avcodec_alloc_context3"));
  encoder->width = RoundUpToEven(options.width);
  encoder->height = RoundUpToEven(options.height);
  encoder->framerate = av_d2q(options.fps, 100000);
  encoder->time_base = av_inv_q(encoder->framerate);
  // One thread: the worker that steps the env encodes, and the other cores are busy.
  encoder->thread_count = 1;
  encoder->flags |= AV_CODEC_FLAG_BITEXACT;
  return encoder;
}

AvCodecPtr OpenGif(const VideoOptions& options) {
  const AVCodec* codec = AvCheckNotNull(avcodec_find_encoder(AV_CODEC_ID_GIF), "the GIF encoder");
  AvCodecPtr encoder = MakeEncoder(codec, options);
  encoder->pix_fmt = AV_PIX_FMT_RGB8;
  AvCheck(avcodec_open2(encoder.get(), codec, nullptr), "avcodec_open2(gif)");
  return encoder;
}

// SVT-AV1 prints its settings to standard error unless this variable says otherwise.
void QuietSvtAv1() {
  static std::once_flag once;
  std::call_once(once, [] { ::setenv("SVT_LOG", "0", /*overwrite=*/0); });
}

// What makes equal frames give equal files, and keeps the encoder silent.
void SetOwnOptions(const std::string& encoder, AVDictionary** settings) {
  if (encoder == "libx264") {
    // Its vector code reads memory that it never wrote when a frame is few blocks wide. The file
    // then depends on the previous content of that memory (seen at 64x64 with MALLOC_PERTURB_).
    av_dict_set_int(settings, "mbtree", 0, 0);
  } else if (encoder == "libx265") {
    // One thread, like the others: the number of threads decides the bits. Without the CU tree,
    // whose vector code writes past its rows when a frame is few blocks wide (32 x 24, x265 3.5).
    // Without B-frames: videos of a few frames sometimes got decoding times that MP4 cannot hold.
    av_dict_set(settings, "x265-params",
                "log-level=none:pools=none:frame-threads=1:no-cutree=1:bframes=0", 0);
  } else if (encoder == "libsvtav1") {
    QuietSvtAv1();
  }
}

AvCodecPtr OpenEncoder(const VideoOptions& options, bool has_global_header) {
  const std::string name = FindVideoEncoder(options.codec, options.width, options.height);
  const AVCodec* codec = AvCheckNotNull(avcodec_find_encoder_by_name(name.c_str()), name);
  AvCodecPtr encoder = MakeEncoder(codec, options);
  encoder->pix_fmt = AV_PIX_FMT_YUV420P;
  const int per_second = std::max(1, static_cast<int>(std::lround(options.fps)));
  encoder->gop_size = options.key_frame_every.value_or(per_second);

  // swscale converts with the BT.601 matrix by default, so the file must say so.
  encoder->color_range = AVCOL_RANGE_MPEG;
  encoder->colorspace = AVCOL_SPC_SMPTE170M;
  encoder->color_primaries = AVCOL_PRI_SMPTE170M;
  encoder->color_trc = AVCOL_TRC_SMPTE170M;
  if (has_global_header) encoder->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;

  AVDictionary* settings = nullptr;
  // libaom-av1 has "cpu-used" instead, where 8 is the fastest
  const bool has_preset = name != "libaom-av1";
  av_dict_set(&settings, has_preset ? "preset" : "cpu-used",
              has_preset ? options.preset.c_str() : "8", 0);
  av_dict_set_int(&settings, "crf", options.crf, 0);
  SetOwnOptions(name, &settings);
  const int result = avcodec_open2(encoder.get(), codec, &settings);
  av_dict_free(&settings);
  AvCheck(result,
          fmt::format("avcodec_open2({}, {} x {} pixels)", name, options.width, options.height));
  return encoder;
}

}  // namespace

std::string_view Name(VideoCodec codec) { return kCodecNames[static_cast<std::size_t>(codec)]; }

VideoCodec ParseVideoCodec(std::string_view name) {
  const auto found = std::ranges::find(kCodecNames, name);
  if (found != kCodecNames.end()) return static_cast<VideoCodec>(found - kCodecNames.begin());
  throw MediaError("expected h264, hevc or av1, found '{}'", name);
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
  throw MediaError(
      "no encoder makes {} of {} x {} pixels: expected {}; this libavcodec has {}. Choose another "
      "codec.",
      Name(codec), width, height, fmt::join(wanted, ", or "),
      present.empty() ? "none" : fmt::format("{}", fmt::join(present, ", ")));
}

std::string FindVideoEncoder(VideoCodec codec, int width, int height) {
  return FindVideoEncoder(codec, width, height, [](const std::string& name) {
    return avcodec_find_encoder_by_name(name.c_str()) != nullptr;
  });
}

struct VideoEncoder::Stream {
  AvOutputPtr output;
  AvCodecPtr encoder;
  AvScalerPtr scaler;
  AvFramePtr frame;  // in the encoder's format
  AvPacketPtr packet;
  AVStream* video = nullptr;  // owned by output
};

VideoEncoder::VideoEncoder(const std::filesystem::path& path, const VideoOptions& options)
    : path_(path), options_(options), padded_(0, 0) {
  QuietLibav();
  CheckOptions(options);
  padded_ = RgbImage(RoundUpToEven(options.width), RoundUpToEven(options.height));
  stream_ = std::make_unique<Stream>();

  // container
  file_.emplace(path);
  stream_->output = OpenOutput(file_->path_to_open(), IsGif(path) ? "gif" : "mp4");
  AVFormatContext* const output = stream_->output.get();

  // codec
  const bool has_global_header = (output->oformat->flags & AVFMT_GLOBALHEADER) != 0;
  stream_->encoder = IsGif(path) ? OpenGif(options) : OpenEncoder(options, has_global_header);
  const AVCodecContext& encoder = *stream_->encoder;
  stream_->video = AvCheckNotNull(avformat_new_stream(output, nullptr), "avformat_new_stream");
  stream_->video->time_base = encoder.time_base;
  stream_->video->avg_frame_rate = encoder.framerate;
  AvCheck(avcodec_parameters_from_context(stream_->video->codecpar, &encoder),
          "avcodec_parameters_from_context");

  // Converts RGB to the encoder's format, with the same bits on every machine. The colour of four
  // pixels is their mean, which is cheaper than the other ways to scale it.
  stream_->scaler.reset(AvCheckNotNull(
      sws_getContext(encoder.width, encoder.height, AV_PIX_FMT_RGB24, encoder.width, encoder.height,
                     encoder.pix_fmt, SWS_AREA | SWS_ACCURATE_RND | SWS_BITEXACT, nullptr, nullptr,
                     nullptr),
      "sws_getContext"));
  stream_->frame.reset(AvCheckNotNull(av_frame_alloc(), "av_frame_alloc"));
  stream_->frame->format = encoder.pix_fmt;
  stream_->frame->width = encoder.width;
  stream_->frame->height = encoder.height;
  AvCheck(av_frame_get_buffer(stream_->frame.get(), 0), "av_frame_get_buffer");
  stream_->packet.reset(AvCheckNotNull(av_packet_alloc(), "av_packet_alloc"));

  if (IsGif(path)) {
    AvCheck(avformat_write_header(output, nullptr), "avformat_write_header");
  } else {
    WriteMp4Header(output);
  }
}

VideoEncoder::~VideoEncoder() = default;

void VideoEncoder::Write(const RgbImage& frame) {
  if (frame.width != options_.width || frame.height != options_.height) {
    throw MediaError("the video is {}x{}, a frame is {}x{}", options_.width, options_.height,
                     frame.width, frame.height);
  }
  const bool is_even = frame.width == padded_.width && frame.height == padded_.height;
  if (!is_even) CopyPadded(frame, &padded_);
  const RgbImage& even = is_even ? frame : padded_;

  // the encoder may still hold the last frame
  AVFrame* encoded = stream_->frame.get();
  AvCheck(av_frame_make_writable(encoded), "av_frame_make_writable");
  const std::array<const std::uint8_t*, 1> planes = {even.pixels.data()};
  const std::array<int, 1> strides = {3 * even.width};
  AvCheck(sws_scale(stream_->scaler.get(), planes.data(), strides.data(), 0, even.height,
                    encoded->data, encoded->linesize),
          "sws_scale");
  encoded->pts = n_frames_++;
  Encode(/*is_flush=*/false);
}

void VideoEncoder::Encode(bool is_flush) {
  AVCodecContext* encoder = stream_->encoder.get();
  AVPacket* packet = stream_->packet.get();
  AvCheck(avcodec_send_frame(encoder, is_flush ? nullptr : stream_->frame.get()),
          "avcodec_send_frame");
  while (true) {
    const int result = avcodec_receive_packet(encoder, packet);
    if (result == AVERROR(EAGAIN) || result == AVERROR_EOF) return;
    AvCheck(result, "avcodec_receive_packet");
    packet->stream_index = stream_->video->index;
    packet->duration = 1;  // one frame; otherwise the last frame would not be shown
    av_packet_rescale_ts(packet, encoder->time_base, stream_->video->time_base);
    AvCheck(av_interleaved_write_frame(stream_->output.get(), packet),
            fmt::format("av_interleaved_write_frame({})", path_.string()));
  }
}

void VideoEncoder::Finish() {
  if (n_frames_ == 0) throw MediaError("a video needs at least one frame");
  Encode(/*is_flush=*/true);
  AvCheck(av_write_trailer(stream_->output.get()), "av_write_trailer");
  AvCheck(avio_closep(&stream_->output->pb), fmt::format("avio_close({})", path_.string()));
  stream_.reset();

  // durable, because the results will name this video
  file_->Commit();
}

}  // namespace dp_bench::media
