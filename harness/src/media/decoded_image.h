// Decoded images: of a file in memory, or of a video (video_frames.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

struct AVFrame;

namespace dp_bench::media {

/// An image as its codec delivers it. It belongs to the decoder that returned it.
class DecodedImage {
 public:
  /// `quality`: the flags of libswscale with which ToRgb converts.
  explicit DecodedImage(int quality);
  DecodedImage(const DecodedImage&) = delete;
  DecodedImage& operator=(const DecodedImage&) = delete;
  ~DecodedImage();

  int width() const;   // [px]
  int height() const;  // [px]

  /// Bits per pixel of an image that may hold depth: 8, or more if it was stored with more, as
  /// grey or as the luma of a video; 32 for floating-point numbers.
  int grey_bits() const;

  /// Writes [height, width, 3] bytes. YUV is converted by libswscale, with the matrix and range
  /// that the stream states, or else BT.601 and limited range. Videos get the same bytes as from
  /// PyAV and torchcodec. Throws Error{kMedia} for a format that cannot be converted.
  void ToRgb(std::span<std::uint8_t> out);

  /// The same with opacity as a fourth byte: 255 if the image has none.
  void ToRgba(std::span<std::uint8_t> out);

  /// Writes [height, width] numbers. With more than 8 bits, and for grey of 8 bits: as stored. For
  /// colours of 8 bits: the mean of red, green and blue.
  void ToGrey(std::span<float> out);

 private:
  friend class ImageDecoder;
  friend class VideoFrames;
  friend class VideoReader;
  struct Conversion;

  AVFrame* frame() const;
  void Convert(int format, int n_channels, std::span<std::uint8_t> out);

  std::unique_ptr<Conversion> conversion_;
};

/// Decodes images one after another. Used by one thread at a time.
class ImageDecoder {
 public:
  ImageDecoder();
  ~ImageDecoder();

  /// Decodes a PNG, JPEG, JPEG 2000, JPEG XL, TIFF, BMP or WebP file in memory. Throws
  /// Error{kMedia} if it is none, is damaged, has another size, or libavcodec was built without its
  /// decoder (JPEG XL); a much larger size is refused before pixels are allocated. Width 0: any
  /// size of at most 64 megapixels. The image is valid until the next call.
  DecodedImage& Decode(std::span<const std::byte> file, int width, int height);

 private:
  struct Codecs;

  std::unique_ptr<Codecs> codecs_;
  DecodedImage image_;
};

/// Decodes an image file to RGB, [height, width, 3] bytes, with the decoder of this thread: opening
/// a codec takes longer than a small image. Throws as ImageDecoder does.
void DecodeRgb(std::span<const std::byte> file, int width, int height, std::span<std::byte> out);

}  // namespace dp_bench::media
