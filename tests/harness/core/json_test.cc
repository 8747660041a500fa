#include "core/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/atomic_file.h"
#include "dp_bench/error.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::core {
namespace {

using testing::HasSubstr;

std::string Nested(int n) {
  const auto levels = static_cast<std::size_t>(n - 1);
  return "{\"a\":" + std::string(levels, '[') + std::string(levels, ']') + "}";
}

TEST(ParseJson, ReadsAnObjectUpToTheGreatestDepth) {
  EXPECT_EQ(ParseJson(R"({"a": {"b": [1]}})", "f.json").at("a").at("b").at(0), 1);
  EXPECT_NO_THROW(ParseJson(Nested(kMaxJsonDepth), "f.json"));
  EXPECT_FALSE(TryParseJson(Nested(kMaxJsonDepth)).is_null());
}

TEST(ParseJson, RefusesDeepNestingWithItsLineAndColumn) {
  EXPECT_THAT(MessageOf(ErrorCode::kData, [] { ParseJson(Nested(kMaxJsonDepth + 1), "f.json"); }),
              HasSubstr("f.json:1:101: nested deeper than 96 levels"));
  const std::string open(100'000, '[');
  EXPECT_THAT(MessageOf(ErrorCode::kCheckpoint,
                        [&] { ParseJson("{\n\"a\":" + open, "f.json", ErrorCode::kCheckpoint); }),
              HasSubstr("f.json:2:100: nested"));
  EXPECT_TRUE(TryParseJson(open).is_null());
}

TEST(ParseJson, DoesNotCountBracketsInStrings) {
  const std::string text = R"({"a": "\")" + std::string(1000, '[') + R"("})";
  EXPECT_NO_THROW(ParseJson(text, "f.json"));
}

TEST(ParseJson, NamesFileAndPlaceOfWhatIsNoJsonObject) {
  EXPECT_THAT(MessageOf(ErrorCode::kData, [] { ParseJson("{\n  \"a\": }", "f.json"); }),
              HasSubstr("f.json: not JSON: parse error at line 2, column 8"));
  EXPECT_THAT(MessageOf(ErrorCode::kData, [] { ParseJson("[1, 2]", "f.json"); }),
              HasSubstr("f.json: expected a JSON object, found an array of 2"));
  EXPECT_LT(MessageOf(ErrorCode::kData, [] { ParseJson(std::string(9000, 'x'), "f"); }).size(),
            400);
  for (const char* text : {"", "1e999", "\"\xff\"", "{\"a\":1} x", "[]", "null"}) {
    EXPECT_EQ(CodeOf([&] { ParseJson(text, "f.json"); }), ErrorCode::kData) << text;
    EXPECT_TRUE(TryParseJson(text).is_null()) << text;
  }
}

TEST(ParseJson, NumbersOfPythonAreNamedWithTheirPlace) {
  const auto refusal = [](const std::string& text) {
    return MessageOf(ErrorCode::kData, [&] { ParseJson(text, "f.json"); });
  };
  EXPECT_EQ(refusal(R"({"a": 1, "state: \" {": {"min": [1.0], "std": [0.5, NaN, 1]}, "b": 2})"),
            "f.json: not JSON: 'state: \\\" {.std' has the value NaN, which Python writes and JSON "
            "does not have");
  EXPECT_THAT(refusal(R"({"a":-Infinity})"), HasSubstr("'a' has the value Infinity"));
  EXPECT_THAT(refusal(R"({"a": Infinity})"), HasSubstr("'a' has the value Infinity"));
  EXPECT_THAT(refusal(R"({"a": Nothing})"), HasSubstr("parse error"));
  EXPECT_THAT(refusal(""), HasSubstr("parse error"));
  EXPECT_THAT(refusal("N"), HasSubstr("parse error"));
}

TEST(ReadJsonFile, ChecksTheSizeBeforeItReads) {
  const ScratchFolder folder;
  const auto file = folder.path() / "f.json";
  WriteFileAtomically(file, R"({"a": 1})");
  EXPECT_EQ(ReadJsonFile(file, 8).at("a"), 1);
  EXPECT_THAT(MessageOf(ErrorCode::kIo, [&] { ReadJsonFile(file, 7); }),
              HasSubstr("f.json' has 8 bytes, at most 7"));
}

class JsonViewTest : public testing::Test {
 protected:
  std::string Refusal(const std::function<void(const JsonView&)>& read) const {
    return MessageOf(ErrorCode::kData, [&] { read(view_); });
  }

  nlohmann::json json_ = nlohmann::json::parse(R"({
    "flag": true, "big": 3000000000, "negative": -1, "real": 0.5, "huge": 1e300, "text": "x",
    "none": null, "list": [1, 2], "rows": [[1.5], [2.5, 3]], "part": {"a": 1.5, "b": "x"}})");
  std::string what_ = "f.json";
  JsonView view_{json_, what_};
};

TEST_F(JsonViewTest, ReadsEveryType) {
  EXPECT_TRUE(view_.Get<bool>("flag"));
  EXPECT_EQ(view_.Get<std::int64_t>("big"), 3'000'000'000);
  EXPECT_EQ(view_.Get<int>("negative"), -1);
  EXPECT_EQ(view_.Get<double>("negative"), -1.0);
  EXPECT_EQ(view_.Get<std::string>("text"), "x");
  EXPECT_EQ(view_.Get<std::vector<std::int64_t>>("list"), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(view_.Get<std::vector<std::vector<float>>>("rows")[1][1], 3.0F);
  EXPECT_EQ(view_.At("part").Get<double>("a"), 1.5);
  EXPECT_EQ(view_.GetOptional<int>("none"), std::nullopt);
  EXPECT_EQ(view_.GetOptional<int>("absent"), std::nullopt);
  EXPECT_EQ(view_.Elements("list")[1].As<int>(), 2);
}

TEST_F(JsonViewTest, ConvertsNothing) {
  EXPECT_THAT(
      Refusal([](const JsonView& v) { v.Get<int>("big"); }),
      HasSubstr("f.json: big: expected an integer from -2147483648 to 2147483647, found 3"));
  EXPECT_THAT(Refusal([](const JsonView& v) { v.Get<std::uint64_t>("negative"); }),
              HasSubstr("negative: expected an integer from 0"));
  EXPECT_THAT(Refusal([](const JsonView& v) { v.Get<int>("real"); }), HasSubstr("found 0.5"));
  EXPECT_THAT(Refusal([](const JsonView& v) { v.Get<int>("flag"); }), HasSubstr("found true"));
  EXPECT_THAT(Refusal([](const JsonView& v) { v.Get<float>("huge"); }), HasSubstr("a number"));
  EXPECT_THAT(Refusal([](const JsonView& v) { v.Get<std::string>("none"); }),
              HasSubstr("none: expected a string, found null"));
}

TEST_F(JsonViewTest, NamesThePlaceOfAFault) {
  EXPECT_THAT(Refusal([](const JsonView& v) { v.Get<int>("absent"); }),
              HasSubstr("f.json: the key 'absent' is missing"));
  EXPECT_THAT(Refusal([](const JsonView& v) { v.At("part").Get<double>("b"); }),
              HasSubstr("f.json: part.b: expected a number, found \"x\""));
  EXPECT_THAT(Refusal([](const JsonView& v) { v.At("list").At("a"); }),
              HasSubstr("f.json: list: expected an object, found an array of 2"));
  EXPECT_THAT(Refusal([](const JsonView& v) { v.Elements("part"); }),
              HasSubstr("f.json: part: expected an array, found an object"));
  EXPECT_THAT(
      Refusal([](const JsonView& v) { v.At("part").Get<std::map<std::string, double>>("a"); }),
      HasSubstr("f.json: part.a: expected an object, found 1.5"));
}

}  // namespace
}  // namespace dp_bench::core
