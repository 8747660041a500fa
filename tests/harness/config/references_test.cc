// References and arithmetic in config strings: their values, the errors with place and chain, and
// the limits that a hostile config meets.
#include "config/references.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/document.h"
#include "config/loader.h"
#include "dp_bench/error.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::config {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::json;

JsonSource Resolved(const std::string& text) {
  JsonSource source = ParseJsonSource(text, "a.json");
  ResolveReferences(&source);
  return source;
}

/// The value of `expression` where horizon is 16 and rate is 0.5.
Json ValueOf(const std::string& expression) {
  return Resolved(fmt::format(R"({{"horizon": 16, "rate": 0.5, "x": "{}"}})", expression))
      .value["x"];
}

std::string ErrorOf(const std::string& text) {
  return MessageOf(ErrorCode::kConfig, [&] { Resolved(text); });
}

std::string ErrorOfValue(const std::string& expression) {
  return MessageOf(ErrorCode::kConfig, [&] { ValueOf(expression); });
}

TEST(References, AValueThatIsOneReferenceKeepsItsType) {
  const Json value = Resolved(R"({"i": 16, "f": 0.5, "b": true, "s": "text", "n": null,
      "list": [1, 2], "object": {"deep": {"n_emb": 256}},
      "to": ["${i}", "${f}", "${b}", "${s}", "${n}", "${list}", "${object}",
             "${object.deep.n_emb}", "${list.1}", "${ i }"]})")
                         .value["to"];
  EXPECT_EQ(value, Json::parse(R"([16, 0.5, true, "text", null, [1, 2], {"deep": {"n_emb": 256}},
                                   256, 2, 16])"));
}

TEST(References, InsideALongerStringAValueIsText) {
  EXPECT_EQ(ValueOf("unet_${horizon}_${rate}"), "unet_16_0.5");
  EXPECT_EQ(ValueOf("${horizon}${horizon}"), "1616");
  EXPECT_EQ(ValueOf(" ${horizon}"), " 16");
  EXPECT_EQ(ValueOf("n${eval: ${horizon} + 1}"), "n17");
}

TEST(References, LeadToOtherReferencesInAnyOrder) {
  const Json value = Resolved(R"({"a": "${b.c}", "b": {"c": "${d}", "e": "${b.c}"}, "d": "${f}",
                                  "f": "${eval: ${g} * 2}", "g": 4, "h": "${i.e}", "i": "${b}"})")
                         .value;
  EXPECT_EQ(value["a"], 8);
  EXPECT_EQ(value["b"], Json::parse(R"({"c": 8, "e": 8})"));
  EXPECT_EQ(value["h"], 8);
  EXPECT_EQ(value["i"], value["b"]);
}

TEST(References, IntegersStayIntegers) {
  for (const auto& [expression, result] :
       std::vector<std::pair<std::string, std::int64_t>>{{"${horizon} * 2", 32},
                                                         {"${horizon} + 2 * 3", 22},
                                                         {"(${horizon} + 2) * 3", 54},
                                                         {"${horizon} - 20 - 1", -5},
                                                         {"-${horizon} // 3", -6},
                                                         {"${horizon} // 3", 5},
                                                         {"-${horizon} % 5", 4},
                                                         {"${horizon} % -5", -4},
                                                         {"${horizon} / 2", 8},
                                                         {"-(1 - +3)", 2},
                                                         {"'${horizon}-1+${horizon}'", 31}}) {
    const Json value = ValueOf("${eval: " + expression + "}");
    EXPECT_TRUE(value.is_number_integer()) << expression;
    EXPECT_EQ(value, result) << expression;
  }
}

TEST(References, ADivisionWithARemainderAndFractionsGiveFractions) {
  for (const auto& [expression, result] :
       std::vector<std::pair<std::string, double>>{{"${horizon} / 3", 16.0 / 3.0},
                                                   {"${rate} * 2", 1.0},
                                                   {"${horizon} * 1e-1", 1.6},
                                                   {"7.5 // 2", 3.0},
                                                   {"-7.5 % 2", 0.5},
                                                   {".5 + ${rate}", 1.0}}) {
    const Json value = ValueOf("${eval:" + expression + "}");
    EXPECT_TRUE(value.is_number_float()) << expression;
    EXPECT_DOUBLE_EQ(value.get<double>(), result) << expression;
  }
}

TEST(References, ADollarBeforeThemIsAnEscape) {
  EXPECT_EQ(ValueOf("$${horizon}"), "${horizon}");
  EXPECT_EQ(ValueOf("$$${horizon}"), "$${horizon}");
  EXPECT_EQ(ValueOf("$5 and {x} $"), "$5 and {x} $");
  for (const std::string text : {"${a}", "$${a}", "$$", "a$", "$${", "x${eval: 1}$${y"}) {
    EXPECT_EQ(Resolved(Json{{"x", EscapeReferences(text)}}.dump()).value["x"], text);
  }
  // a reference to such a text copies it
  EXPECT_EQ(Resolved(R"({"a": {"b": "$${c}"}, "x": "${a}", "y": "${x.b}"})").value["y"], "${c}");
}

TEST(References, AnUnknownKeyIsNamedWithItsPlaceAndTheNearestOne) {
  EXPECT_EQ(ErrorOf("{\"horizon\": 16,\n\"n\": \"${horizn}\"}"),
            "a.json:2: n: no key 'horizn' is in a config file, on the command line or among the "
            "harness's defaults (did you mean 'horizon'?), in the string \"${horizn}\"");
  EXPECT_THAT(ErrorOf(R"({"a": {"n_emb": 1}, "x": "${a.n_em}"})"),
              AllOf(HasSubstr("no key 'a.n_em' is"), HasSubstr("(did you mean 'n_emb'?)")));
  EXPECT_THAT(ErrorOf(R"({"a": [1], "x": "${a.1}"})"), HasSubstr("no key 'a.1' is"));
  EXPECT_THAT(ErrorOf(R"({"a": 1, "x": "${a.b}"})"), HasSubstr("no key 'a.b' is"));
}

TEST(References, AKeyThatTheConfigLeavesOutHasItsDefault) {
  JsonSource source = ParseJsonSource(
      R"({"horizon": 32, "pad": "${eval: ${n_obs_steps} - 1}", "x": "${horizon}", "y": "${z}"})",
      "a.json");
  int n_calls = 0;
  const DefaultsOf defaults = [&n_calls](const Json& config) {
    ++n_calls;
    return Json{{"horizon", 16}, {"n_obs_steps", 2}, {"z", config["horizon"]}};
  };
  ResolveReferences(&source, defaults);
  EXPECT_EQ(source.value["pad"], 1);
  EXPECT_EQ(source.value["x"], 32) << "what the config says goes before a default";
  EXPECT_EQ(source.value["y"], 32) << "a default may follow from the config";
  EXPECT_EQ(n_calls, 1);
  EXPECT_FALSE(source.value.contains("n_obs_steps"));
}

TEST(References, AnErrorNamesTheChainThatLeadsToIt) {
  EXPECT_EQ(ErrorOf("{\"a\": \"${b}\",\n\"b\": \"n_${c}\",\n\"c\": \"${none}\"}"),
            "a.json:3: c: no key 'none' is in a config file, on the command line or among the "
            "harness's defaults, in the string \"${none}\"\n"
            "  used by a.json:2: b: the string \"n_${c}\"\n"
            "  used by a.json:1: a: the string \"${b}\"");
}

TEST(References, ACycleIsAnErrorThatShowsIt) {
  EXPECT_THAT(ErrorOf("{\"a\": \"${b}\",\n\"b\": \"${c}\",\n\"c\": \"${eval: ${a} + 1}\"}"),
              AllOf(HasSubstr("a.json:3: c: the references form a cycle: a -> b -> c -> a"),
                    HasSubstr("used by a.json:1: a")));
  EXPECT_THAT(ErrorOf(R"({"a": "${a}"})"), HasSubstr("cycle: a -> a"));
  EXPECT_THAT(ErrorOf(R"({"a": {"b": "${a}"}})"), HasSubstr("cycle: a.b -> a"));
  EXPECT_THAT(ErrorOf(R"({"a": {"b": ["${c}"]}, "c": "${a}"})"),
              HasSubstr("cycle: a.b.0 -> c -> a"));
  EXPECT_THAT(ErrorOf(R"({"a": "${a.b}"})"), HasSubstr("cycle: a -> a"));
}

TEST(References, ADivisionByZeroAndNumbersThatAreTooLargeAreErrors) {
  for (const std::string op : {"/", "//", "%"}) {
    EXPECT_THAT(ErrorOfValue("${eval: ${horizon} " + op + " (8 - 8)}"),
                HasSubstr("16 " + op + " 0 is a division by zero"));
    EXPECT_THAT(ErrorOfValue("${eval: ${rate} " + op + " 0.0}"), HasSubstr("division by zero"));
  }
  for (const std::string large :
       {"9223372036854775807 + 1", "-9223372036854775807 - 2", "4294967296 * 4294967296",
        "1e308 * 10", "(-9223372036854775807 - 1) // -1"}) {
    EXPECT_THAT(ErrorOfValue("${eval: " + large + "}"), HasSubstr("is too large")) << large;
  }
  EXPECT_EQ(ValueOf("${eval: (-9223372036854775807 - 1) % -1}"), 0);
  EXPECT_THAT(ErrorOfValue("${eval: 99999999999999999999}"), HasSubstr("too large"));
  EXPECT_THAT(ErrorOf(R"({"s": 18446744073709551615, "x": "${eval: ${s} - 1}"})"),
              HasSubstr("expected a number below 2^63 in the calculation, found "
                        "18446744073709551615"));
}

TEST(References, SyntaxErrorsSayWhatWasExpectedAndFound) {
  for (const auto& [expression, message] : std::vector<std::pair<std::string, std::string>>{
           {"${", "expected a key or 'eval:' behind '${', found the end of the string"},
           {"${}", "expected a key or 'eval:' behind '${', found '}'"},
           {"${horizon", "expected '}' behind '${horizon', found the end of the string"},
           {"${horizon ${rate}}", "expected '}' behind '${horizon', found '${rate}}'"},
           {"${now:%Y}", "expected a key or 'eval:' behind '${', found 'now:%Y}'"},
           {"${eval:}", "expected a number, '(' or '${', found '}'"},
           {"${eval: 2 +}", "expected a number, '(' or '${', found '}'"},
           {"${eval: 2 ** 3}", "expected a number, '(' or '${', found '* 3}'"},
           {"${eval: (2}", "expected ')', found '}'"},
           {"${eval: 2 3}", "expected '}', found '3}'"},
           {"${eval: 'x'}", "expected a number, '(' or '${', found 'x'}'"},
           {"${eval: '2}", "expected ''', found '}'"},
           {"${eval: horizon}", "expected a number, '(' or '${', found 'horizon}'"},
           {"${eval: inf}", "expected a number, '(' or '${', found 'inf}'"}}) {
    EXPECT_THAT(ErrorOfValue(expression), AllOf(HasSubstr("a.json:1: x: "), HasSubstr(message)))
        << expression;
  }
}

TEST(References, ValuesOfTheWrongTypeAreErrors) {
  EXPECT_THAT(ErrorOf(R"({"s": "16", "x": "${eval: ${s} * 2}"})"),
              HasSubstr("expected a number in the calculation, found the string \"16\""));
  EXPECT_THAT(ErrorOf(R"({"b": true, "x": "${eval: ${b}}"})"), HasSubstr("found true"));
  EXPECT_THAT(ErrorOf(R"({"o": {}, "x": "a${o}"})"),
              HasSubstr("inside a longer string, found an object"));
  EXPECT_THAT(ErrorOf(R"({"n": null, "x": "a${n}"})"), HasSubstr("found null"));
}

TEST(References, HostileNestingChainsAndCopiesAreRefused) {
  const auto nested = [](int n) {
    return "${eval: " + std::string(static_cast<std::size_t>(n), '(') + "1" +
           std::string(static_cast<std::size_t>(n), ')') + "}";
  };
  EXPECT_EQ(ValueOf(nested(20)), 1);
  EXPECT_THAT(ErrorOfValue(nested(10'000)), HasSubstr("nested deeper than 32 levels"));
  EXPECT_THAT(ErrorOfValue("${eval: " + std::string(10'000, '-') + "1}"),
              HasSubstr("nested deeper than 32"));

  std::string chain = R"({"k0": 1)";
  for (int i = 1; i < 5000; ++i) chain += fmt::format(R"(, "k{}": "${{k{}}}")", i, i - 1);
  // found from k0 on, the chain has a length of one
  EXPECT_THAT(ErrorOf(R"({"a": "${k4999}", )" + chain.substr(1) + "}"),
              HasSubstr("more than 32 references lead to each other"));

  std::string doubling = R"({"k0": "0123456789")";
  for (int i = 1; i < 30; ++i)
    doubling += fmt::format(R"(, "k{0}": ["${{k{1}}}", "${{k{1}}}"])", i, i - 1);
  EXPECT_THAT(ErrorOf(doubling + "}"), HasSubstr("copy at most 100000 values"));
  std::string longer = R"({"k0": "0123456789")";
  for (int i = 1; i < 30; ++i) longer += fmt::format(R"(, "k{0}": "${{k{1}}}${{k{1}}}")", i, i - 1);
  EXPECT_THAT(ErrorOf(longer + "}"), HasSubstr("1048576 bytes of text"));

  std::string deeper = R"({"k0": {})";
  for (int i = 1; i < 30; ++i) {
    deeper += fmt::format(R"(, "k{}": {{"a": {{"b": {{"c": "${{k{}}}"}}}}}})", i, i - 1);
  }
  EXPECT_THAT(ErrorOf(deeper + "}"), HasSubstr("nested deeper than 64 levels"));
}

TEST(References, AreListedWithTheirTextValueAndPlace) {
  const ConfigDocument document(
      Resolved("{\"horizon\": 16,\n\"n\": \"${eval: ${horizon} / 2}\", \"t\": \"plain\"}"));
  EXPECT_THAT(document.DescribeReferences(),
              ElementsAre("n = 8, from ${eval: ${horizon} / 2} (a.json:2)"));
}

class ReferencesInFiles : public testing::Test {
 protected:
  fs::path Write(const std::string& name, const std::string& text) const {
    const fs::path path = scratch_.path() / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path;
  }

  Config Load(const fs::path& file, std::vector<std::string> overrides = {}) const {
    return LoadConfig({.config = file, .overrides = std::move(overrides)});
  }

  ScratchFolder scratch_;
};

TEST_F(ReferencesInFiles, SeeTheMergedConfigWithIncludesAndOverrides) {
  Write("base.json", R"({"horizon": 16, "n": "${eval: ${horizon} // 2}"})");
  const fs::path file = Write("e.json", R"({"include": "base.json", "horizon": 32})");
  EXPECT_EQ(Load(file).Get<int>("n"), 16);
  EXPECT_EQ(Load(file, {"horizon=8"}).Get<int>("n"), 4);
  EXPECT_EQ(Load(file, {"m=${eval: ${n} + 1}"}).Get<int>("m"), 17);
}

TEST_F(ReferencesInFiles, OverridesReplaceThemByAnyTypeAndTheOtherWayRound) {
  const fs::path file = Write("a.json", R"({"h": 16, "n": "${h}", "t": "x", "o": {"p": 1}})");
  EXPECT_EQ(Load(file, {"n=8"}).Get<int>("n"), 8);
  EXPECT_EQ(Load(file, {"h=${o.p}"}).Get<int>("n"), 1);
  EXPECT_EQ(Load(file, {"o=${t}"}).Get<std::string>("o"), "x");
  EXPECT_THAT(
      MessageOf(ErrorCode::kConfig, [&] { Load(file, {"n=${hh}"}); }),
      AllOf(HasSubstr("command line: n=${hh}: n: no key 'hh' is"), HasSubstr("did you mean 'h'?")));
  // an escaped one is text like any other
  const fs::path escaped = Write("b.json", R"({"t": "$${h}"})");
  EXPECT_EQ(Load(escaped, {"t=8"}).Get<std::string>("t"), "8");
}

TEST_F(ReferencesInFiles, AResolvedConfigIsReadBackUnchanged) {
  const fs::path file =
      Write("a.json", R"({"h": 16, "n": "${h}", "text": "$${h}", "list": ["$${none}"]})");
  const Config first = Load(file);
  fs::create_directories(scratch_.path() / "run");
  const fs::path written = scratch_.path() / "run/config.json";
  WriteResolvedConfig(first, written);
  const Config second = Load(written);
  EXPECT_EQ(second.ToJson(), first.ToJson());
  EXPECT_EQ(second.Get<std::string>("text"), "${h}");
  EXPECT_EQ(Load(written, {"m=${eval: ${n} * 2}"}).Get<int>("m"), 32);
}

TEST_F(ReferencesInFiles, ADatasetPathIsTakenAsItIs) {
  const fs::path data = scratch_.path() / "${h}";
  fs::create_directories(data);
  struct OneReader final : DatasetReaders {
    std::string ReaderOf(const fs::path&) override { return kReplayPlugin; }
    bool IsFormatReader(const std::string&) override { return false; }
  } reader;
  const Config config =
      LoadConfig({.dataset = data.string(), .config = Write("a.json", "{}"), .readers = &reader});
  EXPECT_EQ(config.Sub("dataset").Sub("params").Get<std::string>("path"), data.string());
}

}  // namespace
}  // namespace dp_bench::config
