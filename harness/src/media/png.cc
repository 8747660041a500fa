// libavcodec's encoder, with zlib's default compression and without row filters.
#include "media/png.h"

#include "core/atomic_file.h"
#include "dp_bench/error.h"
#include "media/av_ptr.h"

namespace dp_bench::media {

std::string EncodePng(const RgbImage& picture) {
  QuietLibav();
  const AVCodec* codec = AvCheckNotNull(avcodec_find_encoder(AV_CODEC_ID_PNG), "the PNG encoder");
  const AvCodecPtr encoder(AvCheckNotNull(avcodec_alloc_context3(codec), "avcodec_alloc_context3"));
  encoder->width = picture.width;
  encoder->height = picture.height;
  encoder->pix_fmt = AV_PIX_FMT_RGB24;
  encoder->time_base = {1, 1};            // required, but unused
  encoder->sample_aspect_ratio = {1, 1};  // written into the file: pixels are square
  encoder->thread_count = 1;
  AvCheck(avcodec_open2(encoder.get(), codec, nullptr), "avcodec_open2(png)");

  // the encoder copies a frame that does not own its pixels
  const AvFramePtr frame(AvCheckNotNull(av_frame_alloc(), "av_frame_alloc"));
  frame->format = encoder->pix_fmt;
  frame->width = picture.width;
  frame->height = picture.height;
  frame->data[0] = const_cast<std::uint8_t*>(picture.pixels.data());
  frame->linesize[0] = 3 * picture.width;
  AvCheck(avcodec_send_frame(encoder.get(), frame.get()), "avcodec_send_frame(png)");

  const AvPacketPtr packet(AvCheckNotNull(av_packet_alloc(), "av_packet_alloc"));
  AvCheck(avcodec_receive_packet(encoder.get(), packet.get()), "avcodec_receive_packet(png)");
  return {reinterpret_cast<const char*>(packet->data), static_cast<std::size_t>(packet->size)};
}

void WritePng(const std::filesystem::path& path, const RgbImage& picture) {
  core::WriteFileAtomically(path, std::string_view(EncodePng(picture)));
}

}  // namespace dp_bench::media
