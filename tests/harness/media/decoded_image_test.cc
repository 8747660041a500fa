#include "media/decoded_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "media/png.h"
#include "support/error_of.h"
#include "support/golden.h"

namespace dp_bench::media {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

RgbImage Gradient(int width, int height, int offset) {
  RgbImage image(width, height);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    image.pixels[i] = static_cast<std::uint8_t>(static_cast<int>(7 * i) + offset);
  }
  return image;
}

std::vector<std::uint8_t> Rgb(DecodedImage& image) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(3 * image.width() * image.height()));
  image.ToRgb(pixels);
  return pixels;
}

std::vector<float> Grey(DecodedImage& image) {
  std::vector<float> values(static_cast<std::size_t>(image.width() * image.height()));
  image.ToGrey(values);
  return values;
}

void Append(std::uint32_t value, std::size_t n_bytes, bool is_big_endian, std::string* out) {
  for (std::size_t i = 0; i < n_bytes; ++i) {
    const std::size_t shift = 8 * (is_big_endian ? n_bytes - 1 - i : i);
    out->push_back(static_cast<char>(value >> shift & 0xFF));
  }
}

// A TIFF file with one channel, one strip per row, as TIFF 6.0 describes it.
struct Tiff {
  std::uint32_t width = 3;
  std::uint32_t height = 2;
  std::uint32_t n_bits = 32;
  std::uint32_t sample_format = 3;  // floating-point
  std::uint32_t compression = 1;
  bool is_big_endian = false;
  std::vector<std::uint32_t> values;  // bits

  std::string Write() const {
    const std::uint32_t row_bytes = width * n_bits / 8;
    std::string file = is_big_endian ? std::string("MM\0*", 4) : std::string("II*\0", 4);
    const auto append = [&](std::uint32_t value, std::size_t n_bytes) {
      Append(value, n_bytes, is_big_endian, &file);
    };
    append(8, 4);
    constexpr std::uint32_t kEntries = 10;
    const std::uint32_t lists = 8 + 2 + 12 * kEntries + 4;
    const std::uint32_t pixels = lists + 8 * height;
    append(kEntries, 2);
    const auto entry = [&](std::uint32_t tag, std::uint32_t count, std::uint32_t value) {
      append(tag, 2);
      append(4, 2);  // LONG
      append(count, 4);
      append(value, 4);
    };
    entry(256, 1, width);
    entry(257, 1, height);
    entry(258, 1, n_bits);
    entry(259, 1, compression);
    entry(262, 1, 1);  // black is zero
    entry(273, height, lists);
    entry(277, 1, 1);
    entry(278, 1, 1);  // rows per strip
    entry(279, height, lists + 4 * height);
    entry(339, 1, sample_format);
    append(0, 4);
    for (std::uint32_t row = 0; row < height; ++row) append(pixels + row * row_bytes, 4);
    for (std::uint32_t row = 0; row < height; ++row) append(row_bytes, 4);
    for (const std::uint32_t value : values) append(value, n_bits / 8);
    return file;
  }
};

Tiff FloatTiffOf(const std::vector<float>& values, bool is_big_endian = false) {
  Tiff tiff{.is_big_endian = is_big_endian};
  for (const float value : values) tiff.values.push_back(std::bit_cast<std::uint32_t>(value));
  return tiff;
}

TEST(DecodedImage, OpacityIsFullIfTheImageHasNone) {
  const RgbImage image = Gradient(5, 3, 1);
  ImageDecoder decoder;
  const std::string png = EncodePng(image);
  DecodedImage& decoded = decoder.Decode(Bytes(png), 5, 3);
  const std::vector<std::uint8_t> rgb = Rgb(decoded);
  std::vector<std::uint8_t> rgba(std::size_t{4} * 5 * 3);
  decoded.ToRgba(rgba);
  for (std::size_t i = 0; i < rgba.size(); ++i) {
    EXPECT_EQ(rgba[i], i % 4 == 3 ? 255 : rgb[i / 4 * 3 + i % 4]) << i;
  }
}

TEST(DecodedImage, PngIsLossless) {
  ImageDecoder decoder;
  // one after another: the second must not depend on the first
  for (const int offset : {0, 100, 200}) {
    const RgbImage image = Gradient(5, 3, offset);
    EXPECT_EQ(Rgb(decoder.Decode(Bytes(EncodePng(image)), 5, 3)), image.pixels);
  }
}

TEST(DecodedImage, GreyOfColoursIsTheirMean) {
  const RgbImage image = Gradient(4, 4, 0);
  ImageDecoder decoder;
  DecodedImage& decoded = decoder.Decode(Bytes(EncodePng(image)), 4, 4);
  EXPECT_EQ(decoded.grey_bits(), 8);
  const std::vector<float> grey = Grey(decoded);
  for (std::size_t i = 0; i < grey.size(); ++i) {
    EXPECT_FLOAT_EQ(grey[i], static_cast<float>(image.pixels[3 * i] + image.pixels[3 * i + 1] +
                                                image.pixels[3 * i + 2]) /
                                 3.0F);
  }
}

// Pillow's decoder (libjpeg-turbo) interpolates chroma with another filter.
TEST(DecodedImage, JpegIsCloseToPillow) {
  constexpr double kMeanTolerance = 1.5;  // [levels]
  const Array& file = Golden("lerobot_v30").tensors.at("jpeg/file");
  const auto wanted = Golden("lerobot_v30").tensors.at("jpeg/pixels").as<std::uint8_t>();
  ImageDecoder decoder;
  const std::vector<std::uint8_t> found = Rgb(decoder.Decode(file.bytes(), 32, 24));
  ASSERT_EQ(found.size(), wanted.size());
  double sum = 0.0;
  int largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const int difference = std::abs(int{found[i]} - int{wanted[i]});
    sum += difference;
    largest = std::max(largest, difference);
  }
  EXPECT_LE(sum / static_cast<double>(found.size()), kMeanTolerance) << "largest: " << largest;
}

TEST(DecodedImage, TiffOfFloatingPointNumbersIsExact) {
  const std::vector<float> values = {0.0F, 0.25F,    -1.5F,
                                     1e9F, 3.14159F, std::numeric_limits<float>::infinity()};
  for (const bool is_big_endian : {false, true}) {
    ImageDecoder decoder;
    DecodedImage& image = decoder.Decode(Bytes(FloatTiffOf(values, is_big_endian).Write()), 3, 2);
    EXPECT_EQ(image.grey_bits(), 32);
    EXPECT_EQ(Grey(image), values);
  }
}

TEST(DecodedImage, TiffOf16BitsIsExact) {
  for (const bool is_big_endian : {false, true}) {
    ImageDecoder decoder;
    const Tiff tiff{.n_bits = 16,
                    .sample_format = 1,
                    .is_big_endian = is_big_endian,
                    .values = {0, 1, 255, 256, 4095, 65535}};
    DecodedImage& image = decoder.Decode(Bytes(tiff.Write()), 3, 2);
    EXPECT_EQ(image.grey_bits(), 16);
    EXPECT_EQ(Grey(image), (std::vector<float>{0, 1, 255, 256, 4095, 65535}));
  }
}

TEST(DecodedImage, PngOf16BitsIsExact) {
  const Array& file = Golden("lerobot_v30").tensors.at("png16/file");
  const auto wanted = Golden("lerobot_v30").tensors.at("png16/pixels").as<std::uint16_t>();
  ImageDecoder decoder;
  DecodedImage& image = decoder.Decode(file.bytes(), 32, 24);
  EXPECT_EQ(image.grey_bits(), 16);
  EXPECT_EQ(Grey(image), std::vector<float>(wanted.begin(), wanted.end()));
}

TEST(DecodedImage, OtherFilesAndSizesAreRefused) {
  const auto refusal = [](const std::string& file, int width = 5, int height = 3) {
    return MessageOf(ErrorCode::kMedia, [&] {
      ImageDecoder decoder;
      decoder.Decode(Bytes(file), width, height);
    });
  };
  const std::string png = EncodePng(Gradient(5, 3, 0));
  EXPECT_THAT(refusal("GIF89a"), HasSubstr("JPEG XL, TIFF, BMP or WebP file"));
  EXPECT_THAT(refusal(""), HasSubstr("found 0 bytes"));
  EXPECT_THAT(refusal(png, 5, 4), HasSubstr("expected a png file of 5 x 4 pixels, found 5 x 3"));
  EXPECT_THAT(refusal(png.substr(0, png.size() / 2)), HasSubstr("decoding a png file"));
  EXPECT_THAT(refusal(EncodePng(Gradient(900, 900, 0))), HasSubstr("decoding a png file"))
      << "refused before its pixels are allocated";
}

TEST(DecodedImage, DamagedTiffFilesAreRefused) {
  const auto refusal = [](const std::string& file) {
    return MessageOf(ErrorCode::kMedia, [&] {
      ImageDecoder decoder;
      decoder.Decode(Bytes(file), 3, 2);
    });
  };
  const Tiff whole = FloatTiffOf({1, 2, 3, 4, 5, 6});
  const std::string file = whole.Write();
  for (std::size_t size = 8; size < file.size(); ++size) {
    EXPECT_THAT(refusal(file.substr(0, size)), HasSubstr("is cut off")) << size;
  }
  Tiff packed = whole;
  packed.compression = 5;
  EXPECT_THAT(refusal(packed.Write()), HasSubstr("with compression 5"));
  Tiff wide = whole;
  wide.n_bits = 64;
  EXPECT_THAT(refusal(wide.Write()), HasSubstr("of 64 bits per pixel"));
  Tiff large = whole;
  large.width = 0x7FFFFFFF;
  EXPECT_THAT(refusal(large.Write()), HasSubstr("2147483647 x 2 pixels"));
}

}  // namespace
}  // namespace dp_bench::media
