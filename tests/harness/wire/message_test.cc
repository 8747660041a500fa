// Messages from others, which may be wrong in any way.
#include "wire/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "support/error_of.h"
#include "support/hex.h"
#include "support/json_golden.h"
#include "support/wire_values.h"

namespace dp_bench::wire {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;

constexpr std::size_t kMaxTruncated = 4096;

std::string RefusalOfBytes(const std::string& bytes) {
  return MessageOf(ErrorCode::kData, [&] { ReadBytes(bytes); });
}

// All messages of the packages.
std::vector<std::string> AllGolden() {
  std::vector<std::string> all;
  const nlohmann::json& golden = JsonGolden("wire");
  for (const auto& [form, messages] : golden["messages"].items()) {
    for (const auto& [name, hex] : messages.items()) all.push_back(FromHex(hex));
  }
  for (const auto& [name, hex] : golden["read_only"].items()) {
    if (name != "jpeg_pixels") all.push_back(FromHex(hex));
  }
  return all;
}

bool IsWithin(const NdArray& array, const std::string& message) {
  const auto* begin = reinterpret_cast<const std::byte*>(message.data());
  return array.data.get() >= begin &&
         array.data.get() + array.byte_size() <= begin + message.size();
}

TEST(WireMessage, AMessageThatIsCutOffIsRefusedAtEveryByte) {
  for (const std::string& message : AllGolden()) {
    if (message.size() > kMaxTruncated) continue;
    for (std::size_t size = 1; size < message.size(); ++size) {
      EXPECT_THAT(RefusalOfBytes(message.substr(0, size)), HasSubstr("cut off"))
          << size << " of " << ToHex(message);
    }
  }
  EXPECT_EQ(RefusalOfBytes(""), "expected a message, found no bytes");
}

TEST(WireMessage, BytesAfterTheValueAreRefused) {
  for (const std::string& message : AllGolden()) {
    EXPECT_THAT(RefusalOfBytes(message + '\xc0'),
                HasSubstr("expected one value, found 1 bytes after it"));
  }
}

TEST(WireMessage, DataOfArraysAreNotCopied) {
  const NdArray array = CopyOf("<f4", {2, 64}, std::vector<std::byte>(512));
  const auto check = [](const std::string& written) {
    auto bytes = std::make_shared<const std::string>(written);
    Value value = Read(bytes).value;
    const NdArray read = *value.If<Map>()->Find<NdArray>("a");
    EXPECT_TRUE(IsWithin(read, *bytes));
    const std::weak_ptr<const std::string> watch = bytes;
    value = {};
    bytes = nullptr;
    EXPECT_FALSE(watch.expired()) << "the array keeps the message";
  };
  for (const ArrayForm form :
       {ArrayForm::kOpenPi, ArrayForm::kVlaEval, ArrayForm::kMsgpackNumpy, ArrayForm::kNpy}) {
    check(Write(Map{{"a", array}}, form));
  }
  check(Write(Map{{"a", Map{{"__image__", true},
                            {"format", "raw"},
                            {"data", Bytes(12)},
                            {"dtype", "|u1"},
                            {"shape", List{2, 2, 3}}}}},
              ArrayForm::kVlaEval));
}

TEST(WireMessage, TheFormIsThatOfTheFirstArray) {
  const NdArray array = CopyOf("<f4", {}, std::vector<std::byte>(4));
  for (const ArrayForm form :
       {ArrayForm::kOpenPi, ArrayForm::kVlaEval, ArrayForm::kMsgpackNumpy, ArrayForm::kNpy}) {
    EXPECT_EQ(ReadBytes(Write(List{1, array}, form)).array_form, form);
  }
  const std::string two =
      "\x92"s + Write(array, ArrayForm::kNpy) + Write(array, ArrayForm::kOpenPi);
  EXPECT_EQ(ReadBytes(two).array_form, ArrayForm::kNpy);
  EXPECT_EQ(ReadBytes(Write(List{1, "a", Map{}}, ArrayForm::kNpy)).array_form, std::nullopt);
}

TEST(WireMessage, DepthIsLimited) {
  const std::string deepest = std::string(kMaxDepth - 1, '\x91');
  EXPECT_NO_THROW(ReadBytes(deepest + '\x90'));
  EXPECT_NO_THROW(ReadBytes(deepest + '\x80'));
  EXPECT_THAT(RefusalOfBytes(deepest + "\x91\x90"), HasSubstr("nested deeper than 32 levels"));
  EXPECT_THAT(RefusalOfBytes(deepest + "\x81\xa1"
                                       "a\x80"),
              HasSubstr("nested deeper than 32 levels"));
  // an array can be written in a form with a list inside
  const std::string array = Write(CopyOf("<f4", {}, Bytes(4)), ArrayForm::kNpy);
  EXPECT_NO_THROW(ReadBytes(deepest.substr(1) + array));
  EXPECT_THAT(RefusalOfBytes(deepest + array), HasSubstr("nested deeper"));
  EXPECT_THAT(RefusalOfBytes(std::string(1 << 20, '\x91')), HasSubstr("nested deeper"));
}

TEST(WireMessage, CountsAreCheckedBeforeMemoryIsTaken) {
  for (const std::string& count :
       {"\xdd\xff\xff\xff\xff"s, "\xdf\xff\xff\xff\xff"s, "\xdc\xff\xff"s, "\xde\xff\xff"s,
        "\xdf\x7f\xff\xff\xff"s, "\xdf\x80\x00\x00\x00"s}) {
    EXPECT_THAT(RefusalOfBytes(count + std::string(100, '\xc0')), HasSubstr("cut off"));
  }
  // each level announces what the whole message could just hold
  std::string nested;
  for (int level = 0; level < 20; ++level) nested += "\xdd\x00\x00\x10\x00"s;
  EXPECT_THAT(RefusalOfBytes(nested + std::string(4096, '\xc0')), HasSubstr("cut off"));
  for (const std::string& size :
       {"\xdb\xff\xff\xff\xff"s, "\xc6\xff\xff\xff\xff"s, "\xc9\xff\xff\xff\xff\x01"s}) {
    EXPECT_THAT(RefusalOfBytes(size), HasSubstr("cut off"));
  }
}

TEST(WireMessage, TheNumberOfValuesIsLimited) {
  std::string most = "\xdd\x00\x0f\x42\x40"s + std::string(kMaxValues, '\xc0');
  EXPECT_EQ(ReadBytes(most).value.If<List>()->size(), kMaxValues);
  most = "\xdd\x00\x0f\x42\x41"s + std::string(kMaxValues + 1, '\xc0');
  EXPECT_THAT(RefusalOfBytes(most), HasSubstr("at most 1000000 values"));
}

TEST(WireMessage, AKeyThatOccursTwiceIsRefused) {
  EXPECT_EQ(RefusalOfBytes("\x82\xa1"
                           "a\x01\xa1"
                           "a\x02"),
            "the key 'a' occurs twice");
  EXPECT_EQ(RefusalOfBytes("\x82\xa1"
                           "a\x01\xc4\x01"
                           "a\x02"),
            "the key 'a' occurs twice");
  std::string many = "\xde\x01\x00"s;
  for (int i = 0; i < 256; ++i) {
    many += "\xa3" + std::to_string(i == 255 ? 107 : 100 + i) + '\xc0';
  }
  EXPECT_EQ(RefusalOfBytes(many), "the key '107' occurs twice");
}

TEST(WireMessage, ExtensionTypesAreRefused) {
  for (const std::string& extension :
       {"\xd4\x01\x00"s, "\xd5\x01\x00\x00"s, "\xd6\xff\x00\x00\x00\x00"s,
        "\xd7\xff"s + std::string(8, '\0'), "\xd8\x01"s + std::string(16, '\0'), "\xc7\x00\x01"s,
        "\xc7\x01\x01\x00"s, "\xc8\x00\x01\x01\x00"s, "\xc9\x00\x00\x00\x01\x01\x00"s}) {
    EXPECT_EQ(RefusalOfBytes("\x81\xa1t" + extension),
              "t: expected a value without extension types, found one");
  }
  EXPECT_THAT(RefusalOfBytes("\x81\xa1t\xc1"), HasSubstr("t: expected a MessagePack value"));
}

TEST(WireMessage, TextMustBeUtf8) {
  EXPECT_EQ(RefusalOfBytes("\x81\xa1"
                           "a\xa1\xff"),
            "a: expected text in UTF-8, found other bytes");
  EXPECT_EQ(RefusalOfBytes("\x81\xa1\xff\xc0"), "expected text in UTF-8, found other bytes");
  EXPECT_EQ(RefusalOfBytes("\x81\xc4\x01\xff\xc0"), "expected text in UTF-8, found other bytes");
}

TEST(WireMessage, KeysMustBeTextOrBytes) {
  for (const std::string& key :
       {"\x01"s, "\xc0"s, "\xc3"s, "\xcb"s + std::string(8, '\0'), "\x90"s, "\x80"s}) {
    EXPECT_EQ(RefusalOfBytes("\x81\xa1m\x82\xa1"
                             "a\x01" +
                             key + "\x01"),
              "m: expected a key of text or bytes");
  }
  EXPECT_EQ(*ReadBytes("\x81\xc4\x01k\x07").value.If<Map>()->Find<std::int64_t>("k"), 7);
}

TEST(WireMessage, FaultsNameThePlace) {
  EXPECT_EQ(
      RefusalOfBytes(Write(Map{{"obs", Map{{"images", List{1, Map{{"__ndarray__", 1}}}}}}},
                           ArrayForm::kOpenPi)),
      "obs.images.1: a map with the key __ndarray__ needs the keys data, dtype, shape; it has "
      "__ndarray__");
  const std::string key = std::string(39, 'k') + "\u20ac\n";
  EXPECT_EQ(RefusalOfBytes(Write(Map{{key, "x"}}, ArrayForm::kOpenPi).substr(0, 47)),
            std::string(39, 'k') + "...: the message is cut off after 47 bytes");
}

TEST(WireMessage, NumbersThatAreTooLargeForInt64AreUnsigned) {
  EXPECT_NE(ReadBytes("\xcf\x7f\xff\xff\xff\xff\xff\xff\xff").value.If<std::int64_t>(), nullptr);
  EXPECT_NE(ReadBytes("\xcf\x80\0\0\0\0\0\0\0"s).value.If<std::uint64_t>(), nullptr);
  // not the shortest forms
  EXPECT_EQ(*ReadBytes("\xd3\0\0\0\0\0\0\0\x05"s).value.If<std::int64_t>(), 5);
  EXPECT_EQ(*ReadBytes("\xd1\xff\xff"s).value.If<std::int64_t>(), -1);
}

}  // namespace
}  // namespace dp_bench::wire
