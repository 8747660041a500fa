// Maps that stand for an array or a number of numpy, and are wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "media/png.h"
#include "support/error_of.h"
#include "support/hex.h"
#include "support/json_golden.h"
#include "support/wire_values.h"

namespace dp_bench::wire {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;

// A map of openpi with text keys, as vla-eval has it.
Map ArrayMapOf(Value data, Value dtype, Value shape) {
  return {{"__ndarray__", true},
          {"data", std::move(data)},
          {"dtype", std::move(dtype)},
          {"shape", std::move(shape)}};
}

Map ImageMapOf(std::string format, std::string_view file, List shape) {
  const auto bytes = std::as_bytes(std::span(file));
  return {{"__image__", true},
          {"format", std::move(format)},
          {"data", Bytes(bytes.begin(), bytes.end())},
          {"shape", std::move(shape)}};
}

Map NpyMapOf(std::string_view file) {
  const auto bytes = std::as_bytes(std::span(file));
  return {{"__ndarray_class__", true}, {"as_npy", Bytes(bytes.begin(), bytes.end())}};
}

std::string RefusalOf(Map map) {
  const std::string bytes = Write(Map{{"a", std::move(map)}}, ArrayForm::kVlaEval);
  const std::string message = MessageOf(ErrorCode::kData, [&] { ReadBytes(bytes); });
  EXPECT_EQ(message.substr(0, 3), "a: ") << message;
  return message.substr(std::min<std::size_t>(3, message.size()));
}

Value ReadMap(Map map) { return ReadBytes(Write(std::move(map), ArrayForm::kVlaEval)).value; }

TEST(MarkedMap, DataMustFitTheShape) {
  const auto refusal = [](std::size_t n_bytes, List shape) {
    return RefusalOf(ArrayMapOf(Bytes(n_bytes), "<f4", std::move(shape)));
  };
  EXPECT_EQ(refusal(8, {3}), "expected 12 bytes for <f4 [3], found 8");
  EXPECT_EQ(refusal(16, {3}), "expected 12 bytes for <f4 [3], found 16");
  EXPECT_EQ(refusal(0, {}), "expected 4 bytes for <f4 [], found 0");
  EXPECT_EQ(refusal(4, {0}), "expected 0 bytes for <f4 [0], found 4");
  EXPECT_EQ(refusal(4, {-1}), "impossible shape [-1]");
  EXPECT_EQ(refusal(4, {-1, -1}), "impossible shape [-1, -1]");
  EXPECT_EQ(refusal(4, {std::int64_t{1} << 32, std::int64_t{1} << 32}),
            "impossible shape [4294967296, 4294967296]");
  EXPECT_EQ(refusal(0, {INT64_MAX, 0}), "impossible shape [9223372036854775807, 0]");
  EXPECT_EQ(refusal(4, {UINT64_MAX}),
            "'shape': expected integers, found the integer 18446744073709551615");
  EXPECT_EQ(refusal(4, {1.0}), "'shape': expected integers, found the number 1");
  EXPECT_EQ(refusal(4, List(33, Value(1))), "expected at most 32 dimensions, found 33");
  EXPECT_NO_THROW(ReadMap(ArrayMapOf(Bytes(4), "<f4", List(32, Value(1)))));
}

TEST(MarkedMap, TypesAreThoseOfPlainNumbers) {
  const auto refusal = [](const std::string& dtype) {
    return RefusalOf(ArrayMapOf(Bytes(8), dtype, List{1}));
  };
  constexpr char kWanted[] = "; expected b1, i1 to i8, u1 to u8 or f2 to f8, little endian";
  for (const std::string dtype :
       {"", "<", "f4", "<f", "<f3", "<f16", "<f1", "<b2", "<i3", "|O", "<O8", "|V8", "<c8", "<U2",
        "<M8", "<m8[s]", "float32", "*f4", "<u0"}) {
    EXPECT_EQ(refusal(dtype), "dtype '" + dtype + "' is not supported" + kWanted);
  }
  for (const std::string dtype : {">f4", "=f4", "|f4", ">i8"}) {
    EXPECT_EQ(refusal(dtype), "dtype '" + dtype + "' is not little endian" + kWanted);
  }
  for (const std::string dtype : {"<u1", ">u1", "=u1", "|u1"}) {
    const Value value = ReadMap(ArrayMapOf(Bytes(8), dtype, List{8}));
    EXPECT_EQ(value.If<NdArray>()->dtype, "|u1");
  }
}

TEST(MarkedMap, EachKeyHasItsKind) {
  EXPECT_EQ(RefusalOf(ArrayMapOf("abcd", "<f4", List{1})), "'data': expected bytes, found text");
  EXPECT_EQ(RefusalOf(ArrayMapOf(Bytes(4), Bytes(3), List{1})),
            "'dtype': expected text, found 3 bytes");
  EXPECT_EQ(RefusalOf(ArrayMapOf(Bytes(4), List{List{"x", "<f4"}}, List{1})),
            "'dtype': expected text, found a list of 1");
  EXPECT_EQ(RefusalOf(ArrayMapOf(Bytes(4), "<f4", 1)),
            "'shape': expected a list of integers, found the integer 1");
  EXPECT_EQ(RefusalOf({{"__ndarray__", true}, {"data", Bytes(4)}}),
            "a map with the key __ndarray__ needs the keys data, dtype, shape; it has __ndarray__, "
            "data");
  Map more = ArrayMapOf(Bytes(4), "<f4", List{1});
  more.Add("order", "F");
  EXPECT_EQ(RefusalOf(more),
            "a map with the key __ndarray__ needs the keys data, dtype, shape; it has __ndarray__, "
            "data, dtype, shape, order");
}

TEST(MarkedMap, MsgpackNumpysFormIsReadWithTextKeysToo) {
  Map map = {{"nd", true}, {"type", "<f4"}, {"kind", ""}, {"shape", List{1}}, {"data", Bytes(4)}};
  const Message message = ReadBytes(Write(map, ArrayForm::kVlaEval));
  EXPECT_EQ(message.array_form, ArrayForm::kMsgpackNumpy);
  EXPECT_EQ(message.value.If<NdArray>()->shape, (Shape{1}));
}

TEST(MarkedMap, MsgpackNumpysRecordsAndObjectsAreRefused) {
  const auto map = [](Value kind) {
    return Map{{"nd", true},
               {"type", "<f4"},
               {"kind", std::move(kind)},
               {"shape", List{1}},
               {"data", Bytes(4)}};
  };
  constexpr char kWanted[] = "'kind': expected nothing in it: neither records nor objects are read";
  EXPECT_EQ(RefusalOf(map(Bytes{std::byte{'O'}})), kWanted + ", found 1 bytes"s);
  EXPECT_EQ(RefusalOf(map("V")), kWanted + ", found text"s);
  EXPECT_EQ(RefusalOf({{"nd", true}}),
            "a map with the key nd needs the keys type, shape, data; it has nd");
  // somebody's own key
  EXPECT_EQ(*ReadMap({{"nd", 2}}).If<Map>()->Find<std::int64_t>("nd"), 2);
}

TEST(MarkedMap, NumbersOfNumpyHaveTheirType) {
  const auto plain = [](Value data, std::string dtype) {
    return Map{{"__npgeneric__", true}, {"data", std::move(data)}, {"dtype", std::move(dtype)}};
  };
  EXPECT_EQ(RefusalOf(plain(1.5, "<i4")), "'data': expected an integer, found the number 1.5");
  EXPECT_EQ(RefusalOf(plain("a", "<f4")), "'data': expected a number, found text");
  EXPECT_EQ(RefusalOf(plain(1, "|b1")), "'data': expected true or false, found the integer 1");
  EXPECT_EQ(*ReadMap(plain(2, "<f4")).If<double>(), 2.0);
  const auto raw = [](std::size_t n_bytes, std::string type) {
    return Map{{"nd", false}, {"type", std::move(type)}, {"data", Bytes(n_bytes)}};
  };
  EXPECT_EQ(RefusalOf(raw(3, "<f4")), "expected 4 bytes for a number <f4, found 3");
  EXPECT_THAT(RefusalOf(raw(8, ">f8")), HasSubstr("is not little endian"));
}

TEST(MarkedMap, NpyFilesMustBeWhole) {
  const NdArray array = ArrayOf<std::int32_t>("<i4", {2}, {1, 2});
  const std::string message = Write(array, ArrayForm::kNpy);
  const std::string file = message.substr(message.find("\x93NUMPY"));
  ASSERT_EQ(file.size(), 136U);
  EXPECT_TRUE(AreSame(ReadMap(NpyMapOf(file)), Value(array)));
  for (std::size_t size = 0; size < file.size(); ++size) RefusalOf(NpyMapOf(file.substr(0, size)));
  EXPECT_EQ(RefusalOf(NpyMapOf(file + "x")), "expected 8 bytes for <i4 [2], found 9");
  EXPECT_EQ(RefusalOf(NpyMapOf("PK\x03\x04")),
            "expected a .npy file, found 4 bytes of something else");

  const auto with_version = [&](char version) {
    std::string other = file;
    other[6] = version;
    // two bytes more for the length
    return version == 1 ? other : other.substr(0, 10) + std::string(2, '\0') + other.substr(10);
  };
  EXPECT_TRUE(AreSame(ReadMap(NpyMapOf(with_version(2))), Value(array)));
  EXPECT_TRUE(AreSame(ReadMap(NpyMapOf(with_version(3))), Value(array)));
  EXPECT_EQ(RefusalOf(NpyMapOf(with_version(4))),
            "expected a .npy file of version 1.0, 2.0 or 3.0, found 4.0");
}

std::string NpyFile(const std::string& header, const std::string& data) {
  return "\x93NUMPY\x01"s + '\0' + static_cast<char>(header.size()) + '\0' + header + data;
}

TEST(MarkedMap, NpyHeadersMustBePlain) {
  const std::string data(4, '\1');
  for (const std::string header : {"{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }\n",
                                   "{\"shape\":(1),'fortran_order':True,'descr':\"<i4\"}",
                                   "{'shape': (1, 1, 1), 'descr': '<i4', 'fortran_order': True}",
                                   "{'descr': '<i4', 'fortran_order': False, 'shape': ()}"}) {
    EXPECT_NO_THROW(ReadMap(NpyMapOf(NpyFile(header, data)))) << header;
  }
  for (const std::string header :
       {"", "{", "{}", "{'descr': '<i4', 'fortran_order': False}",
        "{'descr': '<i4', 'shape': (1,)}",
        "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<i4', 'fortran_order': 0, 'shape': (1,)}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': [1]}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (1,",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (1L,)}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), 'shape': (1,)}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), 'x': 1}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (1,)} x", "{'descr': '<i4"}) {
    EXPECT_THAT(RefusalOf(NpyMapOf(NpyFile(header, data))), HasSubstr("expected the header"))
        << header;
  }
  EXPECT_THAT(
      RefusalOf(NpyMapOf(NpyFile("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", data))),
      HasSubstr("dtype '|O' is not supported"));
}

std::string GoldenFile(const std::string& name) {
  return FromHex(JsonGolden("wire")["read_only"].at(name));
}

TEST(MarkedMap, ImagesMustHaveTheirShape) {
  const std::string png = FromHex(JsonGolden("tensorboard_events")["png"]);  // 3 wide, 2 high
  EXPECT_NO_THROW(ReadMap(ImageMapOf("png", png, {2, 3, 3})));
  EXPECT_EQ(RefusalOf(ImageMapOf("png", png, {3, 2, 3})),
            "expected a png file of 2 x 3 pixels, found 3 x 2");
  EXPECT_EQ(RefusalOf(ImageMapOf("png", png, {2, 3})),
            "'shape': expected [height, width, channels] of an image, found [2, 3]");
  EXPECT_EQ(RefusalOf(ImageMapOf("png", png, {0, 3, 3})),
            "'shape': expected [height, width, channels] of an image, found [0, 3, 3]");
  EXPECT_EQ(RefusalOf(ImageMapOf("png", png, {2, 3, 2})),
            "'shape': expected an image of 1, 3 or 4 channels, found [2, 3, 2]");
  EXPECT_EQ(RefusalOf(ImageMapOf("jpeg", png, {2, 3, 3})), "'data': expected a jpeg file, found " +
                                                               std::to_string(png.size()) +
                                                               " bytes of something else");
  EXPECT_EQ(RefusalOf(ImageMapOf("webp", png, {2, 3, 3})),
            "'format': expected raw, png or jpeg, found 'webp'");
  for (std::size_t size = 8; size + 12 < png.size(); size += 5) {
    EXPECT_NE(RefusalOf(ImageMapOf("png", png.substr(0, size), {2, 3, 3})), "");
  }
  Map raw = ImageMapOf("raw", "123456", {1, 1, 3});
  raw.Add("dtype", "<u2");
  EXPECT_EQ(RefusalOf(raw), "'dtype': expected |u1, found <u2");
  raw = ImageMapOf("raw", "123", {1, 1, 4});
  raw.Add("dtype", "|u1");
  EXPECT_EQ(RefusalOf(raw), "expected 4 bytes for |u1 [1, 1, 4], found 3");
}

TEST(MarkedMap, ALargeImageIsRefusedByItsShape) {
  const std::string png = FromHex(JsonGolden("tensorboard_events")["png"]);
  EXPECT_EQ(RefusalOf(ImageMapOf("png", png, {8193, 8192, 3})),
            "an image [8193, 8192, 3]: the images of a message may have 67108864 pixels together");
  EXPECT_EQ(RefusalOf(ImageMapOf("png", png, {INT64_MAX, INT64_MAX, 3})),
            "an image [9223372036854775807, 9223372036854775807, 3]: the images of a message may "
            "have 67108864 pixels together");
}

TEST(MarkedMap, ImagesHaveALimitTogether) {
  constexpr int kSide = 4096;
  const Map image = ImageMapOf("png", media::EncodePng(RgbImage(kSide, kSide)), {kSide, kSide, 1});
  EXPECT_NO_THROW(ReadMap({{"a", List(4, image)}}));
  EXPECT_EQ(MessageOf(ErrorCode::kData,
                      [&] {
                        ReadMap({{"a", List(5, image)}});
                      }),
            "a.4: an image [4096, 4096, 1]: the images of a message may have 67108864 pixels "
            "together");
}

TEST(MarkedMap, AReaderMayWantSmallerImages) {
  const Map image = ImageMapOf("png", media::EncodePng(RgbImage(8, 4)), {4, 8, 3});
  const auto bytes =
      std::make_shared<const std::string>(Write(Map{{"a", image}}, ArrayForm::kVlaEval));
  EXPECT_NO_THROW(Read(bytes, 32));
  EXPECT_EQ(MessageOf(ErrorCode::kData, [&] { Read(bytes, 31); }),
            "a: an image [4, 8, 3]: the images of a message may have 31 pixels together");
}

TEST(MarkedMap, PngFilesOfFourChannelsKeepTheirLast) {
  std::vector<std::uint8_t> pixels(4 * 6 * 4);
  std::iota(pixels.begin(), pixels.end(), std::uint8_t{0});
  const Value wanted = Map{{"image", ArrayOf("|u1", {4, 6, 4}, pixels)}};
  EXPECT_TRUE(AreSame(ReadBytes(GoldenFile("rgba_png")).value, wanted));
}

TEST(MarkedMap, JpegFilesAreCloseToPillow) {
  constexpr double kMaxMean = 1.5;  // levels; chroma is interpolated with another filter
  const Value value = ReadBytes(GoldenFile("jpeg")).value;
  const NdArray& image = *value.If<Map>()->Find<NdArray>("image");
  const std::string wanted = GoldenFile("jpeg_pixels");
  ASSERT_EQ(image.byte_size(), wanted.size());
  double sum = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    sum += std::abs(std::to_integer<int>(image.bytes()[i]) - static_cast<unsigned char>(wanted[i]));
  }
  EXPECT_LT(sum / static_cast<double>(wanted.size()), kMaxMean);
}

}  // namespace
}  // namespace dp_bench::wire
