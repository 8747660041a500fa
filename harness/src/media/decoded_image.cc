#include "media/decoded_image.h"

extern "C" {
#include <libavutil/pixdesc.h>
}

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/errors.h"
#include "media/av_ptr.h"

namespace dp_bench::media {

namespace {

const AVPixFmtDescriptor& Describe(const AVFrame& frame) {
  return *AvCheckNotNull(av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format)),
                         "av_pix_fmt_desc_get");
}

bool IsYuv(const AVPixFmtDescriptor& format) {
  return format.nb_components >= 3 && (format.flags & AV_PIX_FMT_FLAG_RGB) == 0;
}

// One number per pixel of the first plane: grey, or the luma of a video.
template <class Stored>
void CopyPlane(const AVFrame& frame, bool is_swapped, std::span<float> out) {
  for (int y = 0; y < frame.height; ++y) {
    const std::uint8_t* row = frame.data[0] + std::ptrdiff_t{y} * frame.linesize[0];
    float* to = out.data() + static_cast<std::ptrdiff_t>(y) * frame.width;
    for (int x = 0; x < frame.width; ++x) {
      std::array<std::uint8_t, sizeof(Stored)> bytes;
      std::memcpy(bytes.data(), row + static_cast<std::size_t>(x) * sizeof(Stored), sizeof(Stored));
      if (is_swapped) std::ranges::reverse(bytes);
      to[x] = static_cast<float>(std::bit_cast<Stored>(bytes));
    }
  }
}

// TIFF files (TIFF 6.0) with one floating-point number per pixel, in which LeRobot stores depth in
// metres. libav reads only whole numbers.

// One uncompressed image of float32. The rows follow each other through all strips.
struct FloatTiff {
  int width = 0;   // [px]
  int height = 0;  // [px]
  bool is_big_endian = false;
  std::vector<std::span<const std::byte>> strips;  // parts of the file
};

// Section 8 of the specification.
enum Tag : std::uint32_t {
  kWidth = 256,
  kHeight = 257,
  kBitsPerSample = 258,
  kCompression = 259,
  kStripOffsets = 273,
  kSamplesPerPixel = 277,
  kStripByteCounts = 279,
  kSampleFormat = 339
};

constexpr std::uint32_t kFloatingPoint = 3;
constexpr std::uint32_t kUncompressed = 1;
constexpr std::uint32_t kMaxTiffSize = 1 << 20;  // [px] in each direction

[[noreturn]] void Refuse(std::string_view what) { throw MediaError("a TIFF file {}", what); }

class TiffFile {
 public:
  TiffFile(std::span<const std::byte> bytes, bool is_big_endian)
      : bytes_(bytes), is_big_endian_(is_big_endian) {}

  std::uint32_t Get(std::size_t offset, std::size_t n_bytes) const {
    std::uint32_t value = 0;
    const std::span<const std::byte> part = Part(offset, n_bytes);
    for (std::size_t i = 0; i < n_bytes; ++i) {
      const std::size_t place = is_big_endian_ ? i : n_bytes - 1 - i;
      value = value << 8 | std::to_integer<std::uint32_t>(part[place]);
    }
    return value;
  }

  std::span<const std::byte> Part(std::size_t offset, std::size_t n_bytes) const {
    if (offset > bytes_.size() || n_bytes > bytes_.size() - offset) Refuse("is cut off");
    return bytes_.subspan(offset, n_bytes);
  }

  // The whole numbers of an entry: SHORT or LONG, in the entry itself if they fit there.
  std::vector<std::uint32_t> Numbers(std::size_t entry) const {
    const std::uint32_t type = Get(entry + 2, 2);
    const std::size_t count = Get(entry + 4, 4);
    const std::size_t size = type == 3 ? 2 : 4;
    if (type != 3 && type != 4) Refuse(fmt::format("has a size of type {}", type));
    if (count > bytes_.size() / size) Refuse("is cut off");
    const std::size_t begin = size * count <= 4 ? entry + 8 : Get(entry + 8, 4);
    std::vector<std::uint32_t> numbers;
    for (std::size_t i = 0; i < count; ++i) numbers.push_back(Get(begin + i * size, size));
    return numbers;
  }

 private:
  std::span<const std::byte> bytes_;
  bool is_big_endian_;
};

// Nothing if `bytes` are no TIFF file with floating-point numbers. Throws Error{kMedia} if they are
// one that is damaged, compressed, or has more than one channel.
std::optional<FloatTiff> ParseFloatTiff(std::span<const std::byte> bytes) {
  using namespace std::string_view_literals;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const bool is_big_endian = text.starts_with("MM\0*"sv);
  if (!is_big_endian && !text.starts_with("II*\0"sv)) return std::nullopt;

  const TiffFile file(bytes, is_big_endian);
  const std::size_t directory = file.Get(4, 4);
  const std::uint32_t n_entries = file.Get(directory, 2);
  std::map<std::uint32_t, std::vector<std::uint32_t>> tags;
  for (std::uint32_t i = 0; i < n_entries; ++i) {
    const std::size_t entry = directory + 2 + std::size_t{12} * i;
    const std::uint32_t tag = file.Get(entry, 2);
    constexpr std::array<std::uint32_t, 8> kKnown = {
        kWidth,        kHeight,          kBitsPerSample,   kCompression,
        kStripOffsets, kSamplesPerPixel, kStripByteCounts, kSampleFormat};
    if (std::ranges::find(kKnown, tag) != kKnown.end()) tags[tag] = file.Numbers(entry);
  }
  const auto get = [&tags](Tag tag, std::uint32_t otherwise) {
    const auto found = tags.find(tag);
    return found == tags.end() || found->second.empty() ? otherwise : found->second.front();
  };
  if (get(kSampleFormat, 1) != kFloatingPoint) return std::nullopt;

  if (get(kBitsPerSample, 1) != 32 || get(kSamplesPerPixel, 1) != 1 ||
      get(kCompression, kUncompressed) != kUncompressed) {
    Refuse(
        fmt::format("has {} floating-point numbers of {} bits per pixel with compression {}; "
                    "expected one of 32 bits without compression",
                    get(kSamplesPerPixel, 1), get(kBitsPerSample, 1), get(kCompression, 1)));
  }
  const std::uint32_t width = get(kWidth, 0);
  const std::uint32_t height = get(kHeight, 0);
  if (std::min(width, height) == 0 || std::max(width, height) > kMaxTiffSize) {
    Refuse(fmt::format("has {} x {} pixels", width, height));
  }
  FloatTiff tiff{.width = static_cast<int>(width),
                 .height = static_cast<int>(height),
                 .is_big_endian = is_big_endian};
  const std::vector<std::uint32_t>& offsets = tags[kStripOffsets];
  const std::vector<std::uint32_t>& counts = tags[kStripByteCounts];
  if (offsets.size() != counts.size()) Refuse("has strips without a size");
  std::uint64_t n_bytes = 0;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    tiff.strips.push_back(file.Part(offsets[i], counts[i]));
    n_bytes += counts[i];
  }
  const std::uint64_t expected = sizeof(float) * std::uint64_t{width} * height;
  if (n_bytes != expected) {
    Refuse(fmt::format("of {} x {} pixels has {} bytes of pixels, expected {}", width, height,
                       n_bytes, expected));
  }
  return tiff;
}

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 30;
constexpr std::int64_t kMaxPixels = std::int64_t{64} << 20;  // if no size is expected

struct Signature {
  AVCodecID codec;
  std::string_view bytes;
};

using namespace std::string_view_literals;
// AV_CODEC_ID_NONE: JPEG XL, which libavcodec before 5.1 has no number for
constexpr std::array<Signature, 9> kSignatures = {
    {{AV_CODEC_ID_PNG, "\x89PNG\r\n\x1a\n"sv},
     {AV_CODEC_ID_MJPEG, "\xff\xd8\xff"sv},
     {AV_CODEC_ID_TIFF, "II*\0"sv},
     {AV_CODEC_ID_TIFF, "MM\0*"sv},
     {AV_CODEC_ID_BMP, "BM"sv},
     {AV_CODEC_ID_JPEG2000, "\xff\x4f\xff\x51"sv},
     {AV_CODEC_ID_JPEG2000, "\0\0\0\x0cjP  \r\n\x87\n"sv},
     {AV_CODEC_ID_NONE, "\xff\x0a"sv},
     {AV_CODEC_ID_NONE, "\0\0\0\x0cJXL \r\n\x87\n"sv}}};

AVCodecID JpegXl() {
  const AVCodec* decoder = avcodec_find_decoder_by_name("libjxl");
  if (decoder != nullptr) return decoder->id;
  throw MediaError(
      "JPEG XL is not decoded here: the libavcodec of this machine was built without libjxl. Those "
      "of Debian 12, Ubuntu 24.04 and later have it.");
}

AVCodecID CodecOf(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  for (const Signature& signature : kSignatures) {
    if (!text.starts_with(signature.bytes)) continue;
    return signature.codec == AV_CODEC_ID_NONE ? JpegXl() : signature.codec;
  }
  constexpr std::size_t kRiffHeader = 8;  // "RIFF" and a size
  if (text.starts_with("RIFF") &&
      text.substr(std::min(kRiffHeader, text.size())).starts_with("WEBP")) {
    return AV_CODEC_ID_WEBP;
  }
  throw MediaError(
      "expected a PNG, JPEG, JPEG 2000, JPEG XL, TIFF, BMP or WebP file, found {} bytes of "
      "something else",
      file.size());
}

void RequireSize(std::string_view format, int found_width, int found_height, int width,
                 int height) {
  if (found_width == width && found_height == height) return;
  throw MediaError("expected a {} file of {} x {} pixels, found {} x {}", format, width, height,
                   found_width, found_height);
}

// The rows of the frame follow each other, too.
void CopyStrips(const FloatTiff& tiff, AVFrame* frame) {
  av_frame_unref(frame);
  frame->width = tiff.width;
  frame->height = tiff.height;
  frame->format = tiff.is_big_endian ? AV_PIX_FMT_GRAYF32BE : AV_PIX_FMT_GRAYF32LE;
  AvCheck(av_frame_get_buffer(frame, /*align=*/1), "av_frame_get_buffer");
  DPB_ASSERT(frame->linesize[0] == tiff.width * static_cast<int>(sizeof(float)));
  std::uint8_t* to = frame->data[0];
  for (const std::span<const std::byte> strip : tiff.strips) {
    std::memcpy(to, strip.data(), strip.size());
    to += strip.size();
  }
}

}  // namespace

struct DecodedImage::Conversion {
  // What the scaler depends on: size, formats, colour space, colour range.
  using Settings = std::tuple<int, int, int, int, int, int>;

  AvFramePtr frame;
  int quality = 0;  // flags of the scaler
  AvScalerPtr scaler;
  Settings settings;
  std::vector<std::uint8_t> rgb;  // of ToGrey
};

DecodedImage::DecodedImage(int quality) : conversion_(std::make_unique<Conversion>()) {
  conversion_->frame.reset(AvCheckNotNull(av_frame_alloc(), "av_frame_alloc"));
  conversion_->quality = quality;
}

DecodedImage::~DecodedImage() = default;

AVFrame* DecodedImage::frame() const { return conversion_->frame.get(); }
int DecodedImage::width() const { return frame()->width; }
int DecodedImage::height() const { return frame()->height; }
int DecodedImage::grey_bits() const { return Describe(*frame()).comp[0].depth; }

void DecodedImage::ToRgb(std::span<std::uint8_t> out) { Convert(AV_PIX_FMT_RGB24, 3, out); }
void DecodedImage::ToRgba(std::span<std::uint8_t> out) { Convert(AV_PIX_FMT_RGBA, 4, out); }

void DecodedImage::Convert(int format, int n_channels, std::span<std::uint8_t> out) {
  Conversion& c = *conversion_;
  const AVFrame& in = *c.frame;
  DPB_ASSERT(out.size() == static_cast<std::size_t>(n_channels) *
                               static_cast<std::size_t>(in.width) *
                               static_cast<std::size_t>(in.height));
  const Conversion::Settings settings = {in.width, in.height,     in.format,
                                         format,   in.colorspace, in.color_range};
  if (c.scaler == nullptr || c.settings != settings) {
    c.scaler.reset(
        AvCheckNotNull(sws_getContext(in.width, in.height, static_cast<AVPixelFormat>(in.format),
                                      in.width, in.height, static_cast<AVPixelFormat>(format),
                                      c.quality, nullptr, nullptr, nullptr),
                       fmt::format("sws_getContext({})", Describe(in).name)));
    if (IsYuv(Describe(in))) {
      constexpr int kOne = 1 << 16;  // contrast and saturation are fixed-point numbers
      sws_setColorspaceDetails(c.scaler.get(), sws_getCoefficients(in.colorspace),
                               in.color_range == AVCOL_RANGE_JPEG ? 1 : 0,
                               sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, kOne, kOne);
    }
    c.settings = settings;
  }
  const std::array<std::uint8_t*, 1> planes = {out.data()};
  const std::array<int, 1> strides = {n_channels * in.width};
  AvCheck(
      sws_scale(c.scaler.get(), in.data, in.linesize, 0, in.height, planes.data(), strides.data()),
      "sws_scale");
}

void DecodedImage::ToGrey(std::span<float> out) {
  const AVFrame& in = *conversion_->frame;
  const AVPixFmtDescriptor& format = Describe(in);
  const bool is_swapped =
      ((format.flags & AV_PIX_FMT_FLAG_BE) != 0) != (std::endian::native == std::endian::big);
  const AVComponentDescriptor& first = format.comp[0];
  if (first.depth == 8 && format.nb_components == 1 && first.step == 1) {
    return CopyPlane<std::uint8_t>(in, false, out);
  }
  if ((format.flags & AV_PIX_FMT_FLAG_FLOAT) != 0 && first.step == sizeof(float)) {
    return CopyPlane<float>(in, is_swapped, out);
  }
  if (first.depth > 8 && first.depth <= 16 && first.step == sizeof(std::uint16_t) &&
      first.shift == 0) {
    return CopyPlane<std::uint16_t>(in, is_swapped, out);
  }
  if (first.depth != 8) {
    throw MediaError("libav: expected an image of one number per pixel, found {}", format.name);
  }
  std::vector<std::uint8_t>& rgb = conversion_->rgb;
  rgb.resize(3 * out.size());
  ToRgb(rgb);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int sum = int{rgb[3 * i]} + int{rgb[3 * i + 1]} + int{rgb[3 * i + 2]};
    out[i] = static_cast<float>(sum) / 3.0F;
  }
}

struct ImageDecoder::Codecs {
  std::map<AVCodecID, AvCodecPtr> decoders;
  AvPacketPtr packet;

  // Opened at the first use.
  AVCodecContext* Find(AVCodecID id) {
    AvCodecPtr& decoder = decoders[id];
    if (decoder == nullptr) {
      AVCodecParameters parameters = {};
      parameters.codec_type = AVMEDIA_TYPE_VIDEO;
      parameters.codec_id = id;
      parameters.format = AV_PIX_FMT_NONE;
      decoder = OpenDecoder(parameters, 1, avcodec_get_name(id));
    }
    return decoder.get();
  }
};

// Interpolates chroma as the decoders of JPEG do.
ImageDecoder::ImageDecoder()
    : codecs_(std::make_unique<Codecs>()),
      image_(SWS_BICUBIC | SWS_FULL_CHR_H_INT | SWS_ACCURATE_RND) {
  QuietLibav();
  codecs_->packet.reset(AvCheckNotNull(av_packet_alloc(), "av_packet_alloc"));
}

ImageDecoder::~ImageDecoder() = default;

DecodedImage& ImageDecoder::Decode(std::span<const std::byte> file, int width, int height) {
  if (const std::optional<FloatTiff> tiff = ParseFloatTiff(file)) {
    RequireSize("tiff", tiff->width, tiff->height, width, height);
    CopyStrips(*tiff, image_.frame());
    return image_;
  }
  const AVCodecID id = CodecOf(file);
  const char* name = avcodec_get_name(id);
  AVCodecContext* decoder = codecs_->Find(id);
  // libav checks sizes that are rounded up to whole blocks
  constexpr std::int64_t kBlock = 128;
  decoder->max_pixels = width == 0 ? kMaxPixels : (width + kBlock) * (height + kBlock);

  // libav reads a little beyond the data, so it gets a padded copy
  AVPacket* packet = codecs_->packet.get();
  if (file.size() > kMaxFileBytes) {
    throw MediaError("a {} file of {} bytes; expected at most {}", name, file.size(),
                     kMaxFileBytes);
  }
  AvCheck(av_new_packet(packet, static_cast<int>(file.size())), "av_new_packet");
  std::memcpy(packet->data, file.data(), file.size());
  packet->flags |= AV_PKT_FLAG_KEY;  // or else PNG adds the pixels of the image before
  int result = avcodec_send_packet(decoder, packet);
  av_packet_unref(packet);
  if (result >= 0) result = avcodec_receive_frame(decoder, image_.frame());
  if (result < 0) {
    avcodec_flush_buffers(decoder);
    AvCheck(result, fmt::format("decoding a {} file of {} bytes to {} x {} pixels", name,
                                file.size(), width, height));
  }
  if (width > 0) RequireSize(name, image_.width(), image_.height(), width, height);
  return image_;
}

void DecodeRgb(std::span<const std::byte> file, int width, int height, std::span<std::byte> out) {
  thread_local ImageDecoder decoder;
  decoder.Decode(file, width, height)
      .ToRgb({reinterpret_cast<std::uint8_t*>(out.data()), out.size()});
}

}  // namespace dp_bench::media
