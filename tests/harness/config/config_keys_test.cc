// Keys that are written once: fields get their values, hold the defaults, and appear in the
// reference.
#include "dp_bench/config_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/key_reference.h"
#include "support/error_of.h"

namespace dp_bench::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

enum class Colour { kRed, kBlue };

struct Section {
  bool flag = true;
  int count = 3;
  std::uint64_t seed = 42;
  double rate = 0.5;
  std::string name = "a";
  std::vector<std::int64_t> sizes = {1, 2};
  std::array<double, 2> pair = {0.25, 0.75};
  std::optional<std::int64_t> limit;
  Colour colour = Colour::kRed;

  static Section FromConfig(const Config& config) {
    Section c;
    const ConfigKeys keys(config);
    keys("flag", &c.flag, "a switch");
    keys("count", &c.count, 0, 10, "how many");
    keys("seed", &c.seed, "decides the draws");
    keys("rate", &c.rate, 0.0, 1.0, "how fast");
    keys("name", &c.name, "of the thing");
    keys("sizes", &c.sizes, "one per level");
    keys("pair", &c.pair, "low and high");
    keys("limit", &c.limit, 1, 100, "none for no limit");
    keys.Choice("colour", &c.colour, {{"red", Colour::kRed}, {"blue", Colour::kBlue}}, "of it");
    return c;
  }
};

std::string SectionErrorOf(const char* text) {
  return MessageOf(ErrorCode::kConfig,
                   [&] { Section::FromConfig(Config::FromJson(text, "my.json")); });
}

TEST(ConfigKeys, FieldsHoldTheDefaultsWhichEnterTheResolvedConfig) {
  const Config config = Config::FromJson("{}");
  const Section c = Section::FromConfig(config);
  EXPECT_EQ(c.count, 3);
  EXPECT_EQ(c.limit, std::nullopt);
  EXPECT_EQ(c.colour, Colour::kRed);
  const Config resolved = Config::FromJson(config.ToJson());
  EXPECT_EQ(resolved.Get<int>("count"), 3);
  EXPECT_EQ(resolved.Get<std::string>("colour"), "red");
  EXPECT_THAT(resolved.Get<std::vector<double>>("pair"), ElementsAre(0.25, 0.75));
  EXPECT_EQ(resolved.GetOptional<int>("limit"), std::nullopt);
}

TEST(ConfigKeys, FieldsOfEveryTypeGetTheirValues) {
  const Config config = Config::FromJson(R"({"flag": false, "count": 10, "seed": 7, "rate": 1,
      "name": "b", "sizes": [4], "pair": [1, 2], "limit": 9, "colour": "blue"})");
  const Section c = Section::FromConfig(config);
  EXPECT_FALSE(c.flag);
  EXPECT_EQ(c.count, 10);
  EXPECT_EQ(c.seed, 7U);
  EXPECT_EQ(c.rate, 1.0);
  EXPECT_EQ(c.name, "b");
  EXPECT_THAT(c.sizes, ElementsAre(4));
  EXPECT_THAT(c.pair, ElementsAre(1.0, 2.0));
  EXPECT_EQ(c.limit, 9);
  EXPECT_EQ(c.colour, Colour::kBlue);
  EXPECT_NO_THROW(config.RejectUnread());
}

TEST(ConfigKeys, ErrorsNameFileLineKeyWantedAndFound) {
  EXPECT_EQ(SectionErrorOf("{\n\"count\": 11}"),
            "my.json:2: count: expected a number from 0 to 10, found 11");
  EXPECT_EQ(SectionErrorOf(R"({"limit": 0})"),
            "my.json:1: limit: expected a number from 1 to 100, found 0");
  EXPECT_EQ(SectionErrorOf(R"({"rate": "fast"})"),
            "my.json:1: rate: expected a number, found the string \"fast\"");
  EXPECT_EQ(SectionErrorOf(R"({"pair": [1]})"), "my.json:1: pair: expected 2 numbers, found 1");
  EXPECT_THAT(SectionErrorOf(R"({"colour": "rad"})"),
              HasSubstr("expected one of red, blue, found 'rad' (did you mean 'red'?)"));
}

TEST(ConfigKeys, TheReferenceHasTypeDefaultRangeAndMeaning) {
  const std::vector<KeyRead> keys =
      FindKeys([](const Config& config) { Section::FromConfig(config); });
  std::vector<std::string> lines;
  for (const KeyRead& key : keys) {
    lines.push_back(key.pointer + " " + key.default_value + " " + key.range + ": " + key.meaning);
  }
  EXPECT_THAT(lines,
              ElementsAre("flag true : a switch", "count 3 0 to 10: how many",
                          "seed 42 : decides the draws", "rate 0.5 0 to 1: how fast",
                          "name \"a\" : of the thing", "sizes [1,2] : one per level",
                          "pair [0.25,0.75] : low and high",
                          "limit none 1 to 100: none for no limit", "colour \"red\" : of it"));
  EXPECT_TRUE(keys.front().reader.ends_with("config_keys_test.cc")) << keys.front().reader;
}

}  // namespace
}  // namespace dp_bench::config
