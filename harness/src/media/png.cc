// libavcodec's encoder, with zlib's default compression and without row filters.
#include "media/png.h"

#include <vector>

#include "core/atomic_file.h"
#include "dp_bench/error.h"
#include "media/av_ptr.h"

namespace dp_bench::media {

namespace {

std::string Encode(int width, int height, AVPixelFormat format, const std::uint8_t* pixels,
                   int row_bytes) {
  QuietLibav();
  const AVCodec* codec = AvCheckNotNull(avcodec_find_encoder(AV_CODEC_ID_PNG), "the PNG encoder");
  const AvCodecPtr encoder(AvCheckNotNull(avcodec_alloc_context3(codec), "avcodec_alloc_context3"));
  encoder->width = width;
  encoder->height = height;
  encoder->pix_fmt = format;
  encoder->time_base = {1, 1};            // required, but unused
  encoder->sample_aspect_ratio = {1, 1};  // written into the file: pixels are square
  encoder->thread_count = 1;
  AvCheck(avcodec_open2(encoder.get(), codec, nullptr), "avcodec_open2(png)");

  // the encoder copies a frame that does not own its pixels
  const AvFramePtr frame(AvCheckNotNull(av_frame_alloc(), "av_frame_alloc"));
  frame->format = format;
  frame->width = width;
  frame->height = height;
  frame->data[0] = const_cast<std::uint8_t*>(pixels);
  frame->linesize[0] = row_bytes;
  AvCheck(avcodec_send_frame(encoder.get(), frame.get()), "avcodec_send_frame(png)");

  const AvPacketPtr packet(AvCheckNotNull(av_packet_alloc(), "av_packet_alloc"));
  AvCheck(avcodec_receive_packet(encoder.get(), packet.get()), "avcodec_receive_packet(png)");
  return {reinterpret_cast<const char*>(packet->data), static_cast<std::size_t>(packet->size)};
}

}  // namespace

std::string EncodePng(const RgbImage& image) {
  return Encode(image.width, image.height, AV_PIX_FMT_RGB24, image.pixels.data(), 3 * image.width);
}

std::string EncodeGreyPng(int width, int height, std::span<const std::uint16_t> levels) {
  DPB_ASSERT(levels.size() == static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
  std::vector<std::uint8_t> bytes;  // PNG has the high byte first
  bytes.reserve(2 * levels.size());
  for (const std::uint16_t level : levels) {
    bytes.push_back(static_cast<std::uint8_t>(level >> 8U));
    bytes.push_back(static_cast<std::uint8_t>(level & 0xffU));
  }
  return Encode(width, height, AV_PIX_FMT_GRAY16BE, bytes.data(), 2 * width);
}

void WritePng(const std::filesystem::path& path, const RgbImage& image) {
  core::WriteFileAtomically(path, EncodePng(image));
}

}  // namespace dp_bench::media
