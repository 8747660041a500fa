// Ownership and errors of FFmpeg's libav, and opening of untrusted files. Only this file frees its
// objects and reads its error codes. Private to harness/src/media.
#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/frame.h>
#include <libswscale/swscale.h>
}

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace dp_bench::media {

/// Stops libav and x264 from printing to the terminal; errors are thrown instead. Everything that
/// uses them calls this first.
void QuietLibav();

/// Returns `result`, or throws Error{kMedia} with libav's own text when it is negative.
int AvCheck(int result, std::string_view call);

/// Returns `pointer`, or throws Error{kMedia} when it is null.
template <class T>
T* AvCheckNotNull(T* pointer, std::string_view call) {
  if (pointer == nullptr) AvCheck(AVERROR(ENOMEM), call);
  return pointer;
}

struct AvDeleter {
  void operator()(AVFrame* frame) const { av_frame_free(&frame); }
  void operator()(AVPacket* packet) const { av_packet_free(&packet); }
  void operator()(AVCodecContext* codec) const { avcodec_free_context(&codec); }
  void operator()(SwsContext* scaler) const { sws_freeContext(scaler); }
};

struct OutputDeleter {
  void operator()(AVFormatContext* output) const {
    if (output->pb != nullptr) avio_closep(&output->pb);
    avformat_free_context(output);
  }
};

struct InputDeleter {
  void operator()(AVFormatContext* input) const { avformat_close_input(&input); }
};

using AvFramePtr = std::unique_ptr<AVFrame, AvDeleter>;
using AvPacketPtr = std::unique_ptr<AVPacket, AvDeleter>;
using AvCodecPtr = std::unique_ptr<AVCodecContext, AvDeleter>;
using AvScalerPtr = std::unique_ptr<SwsContext, AvDeleter>;
using AvOutputPtr = std::unique_ptr<AVFormatContext, OutputDeleter>;
using AvInputPtr = std::unique_ptr<AVFormatContext, InputDeleter>;

/// The video of a file that is open for demuxing. Packets of other streams are not read.
struct InputVideo {
  AvInputPtr file;
  AVStream* stream = nullptr;  // of the file
};

/// Opens a regular file. `containers` is a list of libav's demuxers, which must not include
/// playlists, because these name other files to open. Frames of at most `max_pixels` are decoded to
/// find what the header does not say. Throws Error{kMedia} naming the file, also without video.
InputVideo OpenVideo(const std::filesystem::path& path, const char* containers,
                     std::int64_t max_pixels);

/// Opens an MP4 file (ISO/IEC 14496-12), which has an index of all frames. Throws Error{kMedia}
/// naming the file if its tables claim more samples than the file has bytes, or more entries than
/// fit into them, or if it consists of absurdly many boxes: libav allocates an index of as many
/// samples as a file claims to have, which may be billions in a file of a few bytes.
InputVideo OpenMp4(const std::filesystem::path& path, std::int64_t max_pixels);

/// Creates a file for muxing. Equal content gives equal files. Throws Error{kMedia}.
AvOutputPtr OpenOutput(const std::filesystem::path& path, const char* container);

/// Writes the header of an MP4 file whose streams are known. Its index goes to the front in the
/// end, so that a browser can start before the download ends. Throws Error{kMedia}.
void WriteMp4Header(AVFormatContext* output);

/// Opens the decoder of a stream. With one thread and exact rounding, it gives equal bits
/// everywhere. Refuses frames of more than `max_pixels`, before it allocates them. `what` names the
/// stream in messages. Throws Error{kMedia}.
AvCodecPtr OpenDecoder(const AVCodecParameters& parameters, std::int64_t max_pixels,
                       std::string_view what);

/// Decodes the frames of a video one after another. Throws Error{kMedia} naming the file.
class FrameReader {
 public:
  FrameReader(InputVideo video, const std::filesystem::path& path, std::int64_t max_pixels);

  AVStream* stream() const { return video_.stream; }

  /// The frame that the decoder delivers next. False at the end of the file.
  bool Read(AVFrame* frame);

  /// Continues at the key frame at or before this time, in the stream's units.
  void Seek(std::int64_t timestamp);

 private:
  std::string name_;  // of the file
  InputVideo video_;
  AvCodecPtr decoder_;
  AvPacketPtr packet_;
  bool is_flushed_ = false;  // the end of the file was passed on to the decoder
};

}  // namespace dp_bench::media
