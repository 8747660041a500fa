#include "media/av_ptr.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <vector>

#include "core/regular_file.h"
#include "dp_bench/error.h"

namespace dp_bench::media {
namespace {

// libav would block on a FIFO.
void RequireRegularFile(const std::filesystem::path& path) {
  try {
    const core::RegularFile file(path);
  } catch (const Error& fault) {
    throw Error(ErrorCode::kMedia, fault.what());
  }
}

// libav gives up if a signal interrupts opening a file. It also opens a file by itself, to move the
// index to the front.
int OpenUninterrupted(AVFormatContext* /*output*/, AVIOContext** io, const char* url, int flags,
                      AVDictionary** options) {
  int result = AVERROR(EINTR);
  while (result == AVERROR(EINTR)) result = avio_open2(io, url, flags, nullptr, options);
  return result;
}

}  // namespace

void QuietLibav() {
  static std::once_flag once;
  std::call_once(once, [] { av_log_set_level(AV_LOG_FATAL); });
}

int AvCheck(int result, std::string_view call) {
  if (result >= 0) return result;
  std::array<char, AV_ERROR_MAX_STRING_SIZE> reason{};
  av_strerror(result, reason.data(), reason.size());
  throw Error(ErrorCode::kMedia, fmt::format("libav: {} failed: {}", call, reason.data()));
}

AvInputPtr OpenInput(const std::filesystem::path& path, const char* containers) {
  QuietLibav();
  RequireRegularFile(path);
  AVFormatContext* input = nullptr;
  AVDictionary* options = nullptr;
  av_dict_set(&options, "protocol_whitelist", "file", 0);
  av_dict_set(&options, "format_whitelist", containers, 0);
  // "file:" keeps libav from reading a path with a colon as a protocol
  const int opened =
      avformat_open_input(&input, ("file:" + path.string()).c_str(), nullptr, &options);
  av_dict_free(&options);
  AvCheck(opened, fmt::format("avformat_open_input({})", path.string()));
  return AvInputPtr(input);
}

AVStream* SelectVideo(AVFormatContext* input, std::int64_t max_pixels, std::string_view what) {
  const int index = AvCheck(av_find_best_stream(input, AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0),
                            fmt::format("av_find_best_stream({}, video)", what));
  for (unsigned i = 0; i < input->nb_streams; ++i) input->streams[i]->discard = AVDISCARD_ALL;
  AVStream* video = input->streams[index];
  video->discard = AVDISCARD_DEFAULT;
  if (video->codecpar->width > 0) return video;
  std::vector<AVDictionary*> options(input->nb_streams, nullptr);  // a list per stream
  for (AVDictionary*& own : options) av_dict_set_int(&own, "max_pixels", max_pixels, 0);
  const int result = avformat_find_stream_info(input, options.data());
  for (AVDictionary*& own : options) av_dict_free(&own);
  AvCheck(result, fmt::format("avformat_find_stream_info({})", what));
  return video;
}

AvOutputPtr OpenOutput(const std::filesystem::path& path, const char* container) {
  AVFormatContext* output = nullptr;
  AvCheck(avformat_alloc_output_context2(&output, nullptr, container, path.c_str()),
          fmt::format("avformat_alloc_output_context2({})", container));
  AvOutputPtr owned(output);
  output->flags |= AVFMT_FLAG_BITEXACT;
  output->io_open = OpenUninterrupted;
  AvCheck(OpenUninterrupted(output, &output->pb, path.c_str(), AVIO_FLAG_WRITE, nullptr),
          fmt::format("avio_open({})", path.string()));
  return owned;
}

void WriteMp4Header(AVFormatContext* output) {
  AVDictionary* settings = nullptr;
  av_dict_set(&settings, "movflags", "+faststart", 0);
  const int result = avformat_write_header(output, &settings);
  av_dict_free(&settings);
  AvCheck(result, "avformat_write_header");
}

AvCodecPtr OpenDecoder(const AVCodecParameters& parameters, std::int64_t max_pixels,
                       std::string_view what) {
  const AVCodec* codec = avcodec_find_decoder(parameters.codec_id);
  if (codec == nullptr) {
    throw Error(ErrorCode::kMedia,
                fmt::format("{}: no decoder for {}", what, avcodec_get_name(parameters.codec_id)));
  }
  AvCodecPtr decoder(AvCheckNotNull(avcodec_alloc_context3(codec), "avcodec_alloc_context3"));
  AvCheck(avcodec_parameters_to_context(decoder.get(), &parameters),
          "avcodec_parameters_to_context");
  decoder->thread_count = 1;
  decoder->max_pixels = max_pixels;
  decoder->flags |= AV_CODEC_FLAG_BITEXACT;
  AvCheck(avcodec_open2(decoder.get(), codec, nullptr),
          fmt::format("avcodec_open2({}, {})", what, codec->name));
  return decoder;
}

}  // namespace dp_bench::media
