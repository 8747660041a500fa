// Keys are found by reading: also those that are read under a condition.
#include "config/key_reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dp_bench/error.h"

namespace dp_bench::config {
namespace {

using testing::ElementsAre;

using ReadFn = std::function<void(const Config&)>;

std::vector<std::string> NamesOf(const ReadFn& read) {
  std::vector<std::string> names;
  for (const KeyRead& key : FindKeys(read)) names.push_back(key.pointer);
  return names;
}

KeyRead OnlyKeyOf(const ReadFn& read) {
  const std::vector<KeyRead> keys = FindKeys(read);
  EXPECT_EQ(keys.size(), 1U);
  return keys.empty() ? KeyRead{} : keys.front();
}

TEST(FindKeys, TellsTypeDefaultRangeMeaningAndFile) {
  const KeyRead key = OnlyKeyOf(
      [](const Config& config) { config.GetInRange("lr", 1e-4, 0.0, 2.0, "learning rate"); });
  EXPECT_EQ(key.pointer, "lr");
  EXPECT_EQ(key.type, "number");
  EXPECT_EQ(key.default_value, "0.0001");
  EXPECT_EQ(key.range, "0 to 2");
  EXPECT_EQ(key.meaning, "learning rate");
  EXPECT_TRUE(key.reader.ends_with("tests/harness/config/key_reference_test.cc")) << key.reader;
}

TEST(FindKeys, NamesTheTypesAsTheyAreWrittenInAConfig) {
  const std::vector<KeyRead> keys = FindKeys([](const Config& config) {
    config.Get("flag", true);
    config.Get<std::string>("text", "a");
    config.Get<std::uint64_t>("seed", 42);
    config.Get("sizes", std::vector<std::int64_t>{1, 2});
    config.GetOptional<std::vector<std::string>>("names");
  });
  std::vector<std::string> texts;
  for (const KeyRead& key : keys) texts.push_back(key.type + " = " + key.default_value);
  EXPECT_THAT(texts, ElementsAre("boolean = true", "string = \"a\"", "integer, at least 0 = 42",
                                 "list of integers = [1,2]", "list of strings = none"));
}

TEST(FindKeys, ARangeWithoutAnUpperBoundThatMattersNamesTheLowerOne) {
  EXPECT_EQ(OnlyKeyOf([](const Config& config) {
              config.GetOptionalInRange("n", std::int64_t{1}, std::int64_t{1} << 40);
            }).range,
            "at least 1");
}

TEST(FindKeys, ARequiredKeyThatIsMissingDoesNotEndTheReading) {
  const std::vector<KeyRead> keys = FindKeys([](const Config& config) {
    config.Require<std::string>("path", "a folder");
    config.Get("fps", 10);
  });
  ASSERT_EQ(keys.size(), 2U);
  EXPECT_EQ(keys[0].default_value, "required");
}

TEST(FindKeys, FindsWhatEachChoiceReadsBehindTheKeyThatItFollows) {
  EXPECT_THAT(NamesOf([](const Config& config) {
                const std::string kind = config.GetChoice("kind", {"a", "b", "c"});
                if (kind == "b") config.Get("of_b", 1);
                if (kind == "c" && config.GetChoice("inner", {"x", "y"}) == "y") {
                  config.Get("of_y", 1);
                }
                config.Get("last", 1);
              }),
              ElementsAre("kind", "inner", "of_y", "of_b", "last"));
}

TEST(FindKeys, FindsTheKeysOfAnObjectThatMayBeLeftOut) {
  const std::vector<KeyRead> keys = FindKeys([](const Config& config) {
    if (config.Has("stop")) config.Sub("stop", "ends it").Get("patience", 10);
    if (config.Has("decay")) config.GetInRange("decay", 1.0, 0.0, 1.0);
  });
  ASSERT_EQ(keys.size(), 3U);
  EXPECT_EQ(keys[0].pointer, "stop");
  EXPECT_EQ(keys[0].default_value, "none");
  EXPECT_EQ(keys[1].pointer, "stop.patience");
  EXPECT_EQ(keys[1].default_value, "10");
  EXPECT_EQ(keys[2].default_value, "none") << "the default of its read is never used";
}

TEST(FindKeys, FindsTheKeysOfListsAndOfObjectsWithAnyKeys) {
  EXPECT_THAT(NamesOf([](const Config& config) {
                for (const Config& rule : config.List("rules")) rule.Get("scale", 1.0);
                const Config obs = config.Sub("obs");
                for (const std::string& name : obs.Keys()) obs.Sub(name).Get("dtype", 1);
              }),
              ElementsAre("rules", "rules[].scale", "obs.<name>.dtype"));
}

TEST(FindKeys, ChangesThatAreRefusedTogetherAreTriedApart) {
  EXPECT_THAT(NamesOf([](const Config& config) {
                const bool has_list = config.Has("list");
                const bool has_factor = config.Has("factor");
                if (has_list && has_factor) throw Error(ErrorCode::kConfig, "not both");
                if (has_list) config.Sub("list").Get("a", 1);
                if (has_factor) config.Sub("factor").Get("b", 1);
              }),
              testing::UnorderedElementsAre("factor.b", "list.a"));
}

TEST(FindKeys, ASecondReadAddsOnlyWhatTheFirstDidNotSay) {
  const KeyRead key = OnlyKeyOf([](const Config& config) {
    config.Get<std::string>("mode", "a");
    config.GetChoice("mode", {"a", "b"}, "what it does");
    config.Get<std::string>("mode", "other", "said again");
  });
  EXPECT_EQ(key.default_value, "\"a\"");
  EXPECT_THAT(key.choices, ElementsAre("a", "b"));
  EXPECT_EQ(key.meaning, "what it does");
}

}  // namespace
}  // namespace dp_bench::config
