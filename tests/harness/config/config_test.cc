// Typed reads: types, ranges, defaults, places in messages, and the report of unread keys.
#include "dp_bench/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "dp_bench/error.h"
#include "support/error_of.h"

namespace dp_bench::config {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string ConfigErrorOf(const std::function<void()>& call) {
  return MessageOf(ErrorCode::kConfig, call);
}

TEST(Config, ReadsEveryTypeAndAllowsComments) {
  const Config config = Config::FromJson(R"({
    // a comment
    "flag": true, "count": -3, "big": 18446744073709551615, "rate": 1, /* another */
    "name": "pusht", "shape": [3, 96, 96], "range": [0.5, 1], "keys": ["a", "b"]})");
  EXPECT_TRUE(config.Get<bool>("flag"));
  EXPECT_EQ(config.Get<int>("count"), -3);
  EXPECT_EQ(config.Get<std::int64_t>("count"), -3);
  EXPECT_EQ(config.Get<std::uint64_t>("big"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(config.Get<double>("rate"), 1.0);
  EXPECT_EQ(config.Get<std::string>("name"), "pusht");
  EXPECT_THAT(config.Get<std::vector<std::int64_t>>("shape"), ElementsAre(3, 96, 96));
  EXPECT_THAT(config.Get<std::vector<double>>("range"), ElementsAre(0.5, 1.0));
  EXPECT_THAT(config.Get<std::vector<std::string>>("keys"), ElementsAre("a", "b"));
}

TEST(Config, TypeErrorsNameFileLineKeyWantedAndFound) {
  const Config config = Config::FromJson("{\n\"training\": {\n\"lr\": \"fast\"}}", "my.json");
  EXPECT_EQ(ConfigErrorOf([&] { config.Sub("training").Get<double>("lr"); }),
            "my.json:3: training.lr: expected a number, found the string \"fast\"");
}

TEST(Config, NothingIsConvertedSilently) {
  const Config config = Config::FromJson(
      R"({"fraction": 1.0, "negative": -1, "huge": 3000000000, "past": 9223372036854775808,
          "one": 1, "mixed": [1, "2"], "nothing": null})");
  EXPECT_THAT(ConfigErrorOf([&] { config.Get<int>("fraction"); }),
              HasSubstr("expected an integer, found the number 1.0"));
  EXPECT_THAT(ConfigErrorOf([&] { config.Get<std::uint64_t>("negative"); }),
              HasSubstr("expected an integer from 0 to 18446744073709551615, found the number -1"));
  EXPECT_THAT(ConfigErrorOf([&] { config.Get<int>("huge"); }), HasSubstr("2147483647"));
  EXPECT_THAT(ConfigErrorOf([&] { config.Get<std::int64_t>("past"); }),
              HasSubstr("9223372036854775807"));
  EXPECT_THAT(ConfigErrorOf([&] { config.Get<bool>("one"); }), HasSubstr("expected true or false"));
  EXPECT_THAT(ConfigErrorOf([&] { config.Get<std::vector<std::int64_t>>("mixed"); }),
              HasSubstr("expected an integer, found the string \"2\""));
  EXPECT_THAT(ConfigErrorOf([&] { config.Get("nothing", 0.5); }),
              HasSubstr("expected a number, found null"));
}

TEST(Config, AMissingKeySaysHowToGiveIt) {
  const Config config = Config::FromJson("{\n\"env\": {}}", "my.json");
  EXPECT_EQ(ConfigErrorOf([&] { config.Sub("env").Get<std::string>("plugin"); }),
            "my.json:2: env.plugin: this key is missing; give it in a config file or as "
            "env.plugin=...");
}

TEST(Config, DefaultsAppearInTheResolvedConfigAlsoInAbsentObjects) {
  const Config config = Config::FromJson(R"({"a": 1})");
  EXPECT_EQ(config.Get("a", 5), 1);
  EXPECT_EQ(config.Sub("ema").Sub("warm_up").Get("power", 0.75), 0.75);
  EXPECT_EQ(config.GetOptional<double>("limit"), std::nullopt);
  const Config resolved = Config::FromJson(config.ToJson());
  EXPECT_EQ(resolved.Sub("ema").Sub("warm_up").Get<double>("power"), 0.75);
  EXPECT_EQ(resolved.GetOptional<double>("limit"), std::nullopt);
  EXPECT_FALSE(resolved.Has("limit"));
  EXPECT_THAT(resolved.Keys(), ElementsAre("a", "ema", "limit"));
}

TEST(Config, NullCountsAsAbsentWhereAbsenceIsAllowed) {
  const Config config = Config::FromJson(R"({"limit": null, "params": null, "given": 2})");
  EXPECT_FALSE(config.Has("limit"));
  EXPECT_EQ(config.GetOptional<int>("limit"), std::nullopt);
  EXPECT_EQ(config.GetOptional<int>("given"), 2);
  EXPECT_EQ(config.Sub("params").Get("x", 3), 3);
}

TEST(Config, SubOfSomethingElseIsAnError) {
  const Config config = Config::FromJson(R"({"env": "pusht"})");
  EXPECT_THAT(ConfigErrorOf([&] { config.Sub("env"); }),
              HasSubstr("env: expected an object, found the string \"pusht\""));
}

TEST(Config, ListOfObjectsReadsLikeAnObjectWithNumbersForKeys) {
  const Config config = Config::FromJson(
      "{\"groups\": [{\"name\": \"a\"},\n{\"name\": \"b\", \"scael\": 2}]}", "my.json");
  const Config groups = config.Sub("groups");
  EXPECT_THAT(groups.Keys(), testing::ElementsAre("0", "1"));
  EXPECT_EQ(groups.Sub("1").Get<std::string>("name"), "b");
  EXPECT_EQ(groups.Sub("1").Get("scale", 1.0), 1.0);
  EXPECT_EQ(Config::FromJson(config.ToJson()).Sub("groups").Sub("1").Get<double>("scale"), 1.0);
  EXPECT_THAT(ConfigErrorOf([&] { config.RejectUnread(); }),
              AllOf(HasSubstr("my.json:1: groups.0"),
                    HasSubstr("my.json:2: groups.1.scael (did you mean 'scale'?)")));
}

TEST(Config, AListOfObjectsGivesOneConfigPerElement) {
  const Config config = Config::FromJson(
      "{\"rules\": [{\"name\": \"a\"},\n{\"name\": \"b\"}], \"object\": {\"0\": {}}, \"text\": "
      "\"a\"}",
      "my.json");
  std::vector<std::string> names;
  for (const Config& rule : config.List("rules")) names.push_back(rule.Get<std::string>("name"));
  EXPECT_THAT(names, ElementsAre("a", "b"));
  EXPECT_TRUE(config.List("absent").empty());
  EXPECT_EQ(ConfigErrorOf([&] { config.List("object"); }),
            "my.json:2: object: expected a list of objects, found an object");
  EXPECT_THAT(ConfigErrorOf([&] { config.List("text"); }), HasSubstr("found the string"));
}

TEST(Config, OptionalNumbersAreCheckedWhereTheyAreGiven) {
  const Config config = Config::FromJson(R"({"null": null, "low": 0, "good": 2})");
  const auto read = [&](const char* key) { return config.GetOptionalInRange(key, 1.0, 3.0); };
  EXPECT_EQ(read("null"), std::nullopt);
  EXPECT_EQ(read("absent"), std::nullopt);
  EXPECT_EQ(read("good"), 2.0);
  EXPECT_THAT(ConfigErrorOf([&] { read("low"); }),
              HasSubstr("low: expected a number from 1 to 3, found 0"));
}

TEST(Config, ListInPlaceOfAnObjectIsAnError) {
  const Config config = Config::FromJson(R"({"env": [{}], "training": [1]})");
  EXPECT_THAT(ConfigErrorOf([&] { config.Sub("training"); }),
              HasSubstr("training: expected an object, found the array [1]"));
  EXPECT_THAT(ConfigErrorOf([&] { config.Sub("env").Get("seed", 1); }),
              HasSubstr("env.seed: expected an object around this key, found the array [{}]"));
}

TEST(Config, RangesAndChoicesAreChecked) {
  const Config config = Config::FromJson(R"({"ratio": 1.5, "n": 0, "mode": "cosin"})");
  EXPECT_THAT(ConfigErrorOf([&] { config.GetInRange("ratio", 0.1, 0.0, 1.0); }),
              HasSubstr("ratio: expected a number from 0 to 1, found 1.5"));
  EXPECT_THAT(ConfigErrorOf([&] {
                config.GetInRange("n", std::int64_t{1}, std::int64_t{1}, std::int64_t{8});
              }),
              HasSubstr("n: expected a number from 1 to 8, found 0"));
  EXPECT_THAT(ConfigErrorOf([&] {
                config.GetChoice("mode", {"linear", "cosine"});
              }),
              HasSubstr("expected one of linear, cosine, found 'cosin' (did you mean 'cosine'?)"));
  EXPECT_EQ(config.GetChoice("absent", {"linear", "cosine"}), "linear");
}

TEST(Config, ListsAllUnreadKeysWithLineAndNearestKey) {
  const Config config = Config::FromJson(
      "{\n\"n_epochs\": 3,\n\"optimizer\": {\"learning\": 1,\n\"wieght_decay\": 2},\n"
      "\"unused\": {\"a\": 1, \"b\": 2}}",
      "my.json");
  config.Get("num_epochs", 10);
  config.Sub("optimizer").Get("weight_decay", 0.1);
  EXPECT_EQ(ConfigErrorOf([&] { config.RejectUnread(); }),
            "nothing reads these keys of the config; correct or remove them:\n"
            "  my.json:2: n_epochs (did you mean 'num_epochs'?)\n"
            "  my.json:3: optimizer.learning (known here: weight_decay)\n"
            "  my.json:4: optimizer.wieght_decay (did you mean 'weight_decay'?)\n"
            "  my.json:5: unused (known here: num_epochs, optimizer)");
}

TEST(Config, SuggestsTheObjectThatKnowsAMisplacedKey) {
  const Config config = Config::FromJson(R"({"betas": [0.9], "optimizer": {}})");
  config.Sub("optimizer").Get("betas", std::vector<double>{0.9, 0.999});
  EXPECT_THAT(ConfigErrorOf([&] { config.RejectUnread(); }),
              HasSubstr("betas (did you mean 'optimizer.betas'?)"));
}

TEST(Config, RejectUnreadOfASubObjectLooksOnlyBelowIt) {
  const Config config = Config::FromJson(R"({"other": 1, "params": {"x": 1}})");
  const Config params = config.Sub("params");
  EXPECT_THAT(ConfigErrorOf([&] { params.RejectUnread(); }),
              AllOf(HasSubstr("params.x"), Not(HasSubstr("other"))));
  params.Get<int>("x");
  EXPECT_NO_THROW(params.RejectUnread());
}

TEST(Config, AskingWhetherAKeyExistsDoesNotReadIt) {
  const Config config = Config::FromJson(R"({"x": 1})");
  EXPECT_TRUE(config.Has("x"));
  EXPECT_THAT(ConfigErrorOf([&] { config.RejectUnread(); }), HasSubstr("x"));
}

TEST(Config, ADuplicateKeyNamesBothPlaces) {
  EXPECT_THAT(ConfigErrorOf([] { Config::FromJson("{\"a\": {\"b\": 1,\n\"b\": 2}}", "my.json"); }),
              AllOf(HasSubstr("my.json:2: the key 'a.b'"), HasSubstr("given at my.json:1")));
}

TEST(Config, SyntaxErrorsNameTheLine) {
  EXPECT_THAT(ConfigErrorOf([] { Config::FromJson("{\n\"a\": 1,\n\"b\" 2}", "my.json"); }),
              AllOf(HasSubstr("my.json:3: this is not JSON"), HasSubstr("syntax error")));
  EXPECT_THAT(ConfigErrorOf([] { Config::FromJson("", "my.json"); }), HasSubstr("my.json:1"));
  EXPECT_THAT(ConfigErrorOf([] { Config::FromJson("[1]", "my.json"); }),
              HasSubstr("a config is a JSON object, this is the array [1]"));
  EXPECT_THAT(ConfigErrorOf([] { Config::FromJson("{\"a\": 1e999}", "my.json"); }),
              HasSubstr("my.json:1"));
}

TEST(Config, HostileDepthAndSizeAreRefused) {
  const std::string deep = "{\"a\": " + std::string(100000, '[');
  EXPECT_THAT(ConfigErrorOf([&] { Config::FromJson(deep); }), HasSubstr("deeper than 64 levels"));
  const std::string large((std::size_t{16} << 20) + 1, ' ');
  EXPECT_THAT(ConfigErrorOf([&] { Config::FromJson(large); }), HasSubstr("at most 16777216"));
}

TEST(Config, KeysWithSlashesTildesAndDigitsKeepTheirMeaning) {
  const Config config = Config::FromJson(R"({"a/b": {"~c": 1}, "0": {"1": 2}})");
  EXPECT_EQ(config.Sub("a/b").Get<int>("~c"), 1);
  EXPECT_EQ(config.Sub("0").Get<int>("1"), 2);
  EXPECT_EQ(config.Sub("7").Get("8", 3), 3);
  EXPECT_EQ(Config::FromJson(config.ToJson()).Sub("7").Get<int>("8"), 3);
  EXPECT_NO_THROW(config.RejectUnread());
}

TEST(Config, SeveralThreadsMayReadOneDocument) {
  const Config config = Config::FromJson(R"({"given": 1})");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([config] {
      for (int k = 0; k < 200; ++k) {
        config.Get<int>("given");
        config.Sub("sub").Get("default_" + std::to_string(k), k);
        config.ToJson();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(config.Sub("sub").Keys().size(), 200U);
  EXPECT_NO_THROW(config.RejectUnread());
}

}  // namespace
}  // namespace dp_bench::config
