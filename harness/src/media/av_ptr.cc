#include "media/av_ptr.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "core/errors.h"
#include "core/regular_file.h"

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

using namespace std::string_view_literals;

constexpr int kMaxDepth = 8;
constexpr int kMaxBoxes = 1'000'000;

// The boxes on the way to the tables of samples.
constexpr std::array kParents = {"moov"sv, "trak"sv, "mdia"sv, "minf"sv,
                                 "stbl"sv, "moof"sv, "traf"sv};

// Tables that begin, after version and flags, with the number of their entries, of at least four
// bytes each.
constexpr std::array kTables = {"stts"sv, "ctts"sv, "stss"sv, "stps"sv,
                                "stsc"sv, "stco"sv, "co64"sv};

class TableCheck {
 public:
  explicit TableCheck(const std::filesystem::path& path) : file_(path) {}

  void Run() { Walk(0, file_.size(), 0); }

 private:
  std::uint64_t ReadNumber(std::uint64_t position, std::size_t n_bytes) {
    std::array<std::byte, 8> bytes = {};
    file_.Seek(position);
    file_.ReadExactly(std::span(bytes).first(n_bytes));
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < n_bytes; ++i) {
      number = number << 8 | std::to_integer<std::uint64_t>(bytes[i]);
    }
    return number;
  }

  void Walk(std::uint64_t begin, std::uint64_t end, int depth) {
    while (depth < kMaxDepth && end - begin >= 8) {
      if (++n_boxes_ > kMaxBoxes) Refuse(fmt::format("more than {} boxes", kMaxBoxes));
      std::uint64_t size = ReadNumber(begin, 4);
      const auto type = static_cast<std::uint32_t>(ReadNumber(begin + 4, 4));
      std::uint64_t content = begin + 8;
      if (size == 1 && end - begin >= 16) {
        size = ReadNumber(begin + 8, 8);
        content = begin + 16;
      }
      // libav reads what is there of a box that is cut off
      if (size == 0 || size > end - begin) size = end - begin;
      if (begin + size < content) return;
      Look(type, content, begin + size, depth);
      begin += size;
    }
  }

  void Look(std::uint32_t type, std::uint64_t begin, std::uint64_t end, int depth) {
    const std::array<char, 4> letters = {static_cast<char>(type >> 24),
                                         static_cast<char>(type >> 16),
                                         static_cast<char>(type >> 8), static_cast<char>(type)};
    const std::string_view name(letters.data(), letters.size());
    if (std::ranges::find(kParents, name) != kParents.end()) return Walk(begin, end, depth + 1);
    if (std::ranges::find(kTables, name) != kTables.end() && end - begin >= 8) {
      const std::uint64_t n_entries = ReadNumber(begin + 4, 4);
      if (n_entries > (end - begin) / 4) {
        Refuse(fmt::format("{} entries of '{}' in {} bytes", n_entries, name, end - begin));
      }
    }
    // after version and flags: the count, in stsz and stz2 after four more bytes
    const std::uint64_t offset = name == "trun" ? 4 : 8;
    if (name != "stsz" && name != "stz2" && name != "trun") return;
    if (end - begin < offset + 4) return;
    n_samples_ += ReadNumber(begin + offset, 4);
    if (n_samples_ > file_.size()) {
      Refuse(fmt::format("{} samples in {} bytes", n_samples_, file_.size()));
    }
  }

  [[noreturn]] void Refuse(const std::string& what) const {
    throw MediaError("{}: the tables are damaged: {}", file_.path().string(), what);
  }

  core::RegularFile file_;
  int n_boxes_ = 0;
  std::uint64_t n_samples_ = 0;
};

}  // namespace

void QuietLibav() {
  static std::once_flag once;
  std::call_once(once, [] { av_log_set_level(AV_LOG_FATAL); });
}

int AvCheck(int result, std::string_view call) {
  if (result >= 0) return result;
  std::array<char, AV_ERROR_MAX_STRING_SIZE> reason{};
  av_strerror(result, reason.data(), reason.size());
  throw MediaError("libav: {} failed: {}", call, reason.data());
}

InputVideo OpenVideo(const std::filesystem::path& path, const char* containers,
                     std::int64_t max_pixels) {
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
  InputVideo video{.file = AvInputPtr(input)};
  const int index = AvCheck(av_find_best_stream(input, AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0),
                            fmt::format("av_find_best_stream({}, video)", path.string()));
  for (unsigned i = 0; i < input->nb_streams; ++i) input->streams[i]->discard = AVDISCARD_ALL;
  video.stream = input->streams[index];
  video.stream->discard = AVDISCARD_DEFAULT;
  // MPEG-4 part 2 has no size in its header, and GIF no rate
  if (video.stream->codecpar->width > 0 && video.stream->avg_frame_rate.num > 0) return video;
  std::vector<AVDictionary*> limits(input->nb_streams, nullptr);  // a list per stream
  for (AVDictionary*& own : limits) av_dict_set_int(&own, "max_pixels", max_pixels, 0);
  const int result = avformat_find_stream_info(input, limits.data());
  for (AVDictionary*& own : limits) av_dict_free(&own);
  AvCheck(result, fmt::format("avformat_find_stream_info({})", path.string()));
  return video;
}

AvOutputPtr OpenOutput(const std::filesystem::path& path, const char* container) {
  const std::string url = "file:" + path.string();  // "a:b" would be a protocol
  AVFormatContext* output = nullptr;
  AvCheck(avformat_alloc_output_context2(&output, nullptr, container, url.c_str()),
          fmt::format("avformat_alloc_output_context2({})", container));
  AvOutputPtr owned(output);
  output->flags |= AVFMT_FLAG_BITEXACT;
  output->io_open = OpenUninterrupted;
  AvCheck(OpenUninterrupted(output, &output->pb, url.c_str(), AVIO_FLAG_WRITE, nullptr),
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
    throw MediaError("{}: no decoder for {}", what, avcodec_get_name(parameters.codec_id));
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

InputVideo OpenMp4(const std::filesystem::path& path, std::int64_t max_pixels) {
  try {
    TableCheck(path).Run();
  } catch (const Error& fault) {
    throw Error(ErrorCode::kMedia, fault.what());
  }
  return OpenVideo(path, "mov,mp4,m4a,3gp,3g2,mj2", max_pixels);
}

FrameReader::FrameReader(InputVideo video, const std::filesystem::path& path,
                         std::int64_t max_pixels)
    : name_(path.string()),
      video_(std::move(video)),
      decoder_(OpenDecoder(*video_.stream->codecpar, max_pixels, name_)),
      packet_(AvCheckNotNull(av_packet_alloc(), "av_packet_alloc")) {}

bool FrameReader::Read(AVFrame* frame) {
  while (true) {
    const int result = avcodec_receive_frame(decoder_.get(), frame);
    if (result == AVERROR_EOF) return false;
    if (result >= 0) return true;
    if (result != AVERROR(EAGAIN) || is_flushed_) {
      AvCheck(result, fmt::format("avcodec_receive_frame({})", name_));
    }

    // the decoder needs the next packet, or an empty one at the end
    const int read = av_read_frame(video_.file.get(), packet_.get());
    if (read != AVERROR_EOF) AvCheck(read, fmt::format("av_read_frame({})", name_));
    is_flushed_ = read == AVERROR_EOF;
    int sent = 0;
    if (is_flushed_ || packet_->stream_index == video_.stream->index) {
      sent = avcodec_send_packet(decoder_.get(), is_flushed_ ? nullptr : packet_.get());
    }
    av_packet_unref(packet_.get());
    AvCheck(sent, fmt::format("avcodec_send_packet({})", name_));
  }
}

void FrameReader::Seek(std::int64_t timestamp) {
  AvCheck(av_seek_frame(video_.file.get(), video_.stream->index, timestamp, AVSEEK_FLAG_BACKWARD),
          fmt::format("av_seek_frame({})", name_));
  avcodec_flush_buffers(decoder_.get());
  is_flushed_ = false;
}

}  // namespace dp_bench::media
