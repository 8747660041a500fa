// Where a message has the observations: from a file, and in messages.
#include "serve/key_map.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>

#include "serve/observations.h"
#include "serve/protocol.h"
#include "support/error_of.h"
#include "support/wire_values.h"

namespace dp_bench::serve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const PolicySpec kNamed{
    .shape_meta = {
        .obs = {{.name = "cam", .type = KeyType::kRgb, .shape = {3, 1, 2}, .dtype = DType::kUInt8},
                {.name = "grip", .shape = {1}},
                {.name = "joints", .shape = {2}}},
        .action = {.name = "action", .shape = {3}}}};

KeyMap FromText(const std::string& text, const std::string& protocol = "openpi") {
  return KeyMap::FromConfig(Config::FromJson(text),
                            MakeProtocol(protocol, "")->DefaultKeys(kNamed));
}

ClientRequest ReadBy(const std::string& protocol, const wire::Message& message) {
  const auto speaks = MakeProtocol(protocol, "");
  ClientRequest request;
  speaks->Read(message, Metadata({.spec = kNamed}, speaks->DefaultKeys(kNamed), *speaks), &request);
  return request;
}

wire::NdArray Floats(const std::vector<float>& numbers) {
  return wire::FloatArray({static_cast<std::int64_t>(numbers.size())}, numbers);
}

wire::NdArray Bytes(Shape shape, const std::vector<std::uint8_t>& numbers) {
  return wire::ArrayOf("|u1", std::move(shape), numbers);
}

std::vector<float> FloatsAt(const Observations& observations, std::size_t key) {
  const ObsView view = observations.At(0, 0).at(key);
  std::vector<float> numbers(static_cast<std::size_t>(view.shape.values()[0]));
  std::memcpy(numbers.data(), view.data, numbers.size() * sizeof(float));
  return numbers;
}

TEST(KeyMap, DefaultsAreThoseOfTheProtocol) {
  const auto paths = [](const std::string& protocol) {
    std::vector<std::string> names;
    for (const InputKey& key : FromText("{}", protocol).obs) names.push_back(key.path);
    return names;
  };
  EXPECT_THAT(paths("openpi"), ElementsAre("cam", "grip", "joints"));
  EXPECT_THAT(paths("starvla"), ElementsAre("cam", "grip", "joints"));
  EXPECT_THAT(paths("groot"), ElementsAre("video/cam", "state/grip", "state/joints"));
  EXPECT_THAT(paths("vla_eval"), ElementsAre("images/cam", "state", "state"));
  EXPECT_EQ(FromText("{}", "vla_eval").obs[2].first, 1);
}

TEST(KeyMap, ReadsPathsLayoutsAndParts) {
  const KeyMap keys = FromText(R"({"obs": {"cam": {"key": "images/top", "layout": "chw"},
      "grip": {"key": "observation/state", "first": 2},
      "joints": {"key": "observation/state", "first": 0}}, "actions": "acts"})");
  EXPECT_EQ(keys.actions, "acts");
  // planes of red 1 2, green 3 4, blue 5 6
  const wire::Map message = {{"images", wire::Map{{"top", Bytes({3, 1, 2}, {1, 2, 3, 4, 5, 6})}}},
                             {"observation/state", Floats({7, 8, 9})},
                             {"prompt", "go"}};
  const Observations observations(keys, message);
  EXPECT_THAT(FloatsAt(observations, 1), ElementsAre(9));
  EXPECT_THAT(FloatsAt(observations, 2), ElementsAre(7, 8));
  const ObsView cam = observations.At(0, 0).at(0);
  EXPECT_THAT(cam.shape.values(), ElementsAre(1, 2, 3));
  EXPECT_THAT(cam.strides.values(), ElementsAre(2, 1, 2));
}

TEST(KeyMap, ResizesImagesOfADeclaredSize) {
  constexpr std::size_t kPixels = 2 * 4;
  for (const bool is_chw : {false, true}) {
    const KeyMap keys = FromText(fmt::format(
        R"({{"obs": {{"cam": {{"size": [2, 4], "layout": "{}"}}}}}})", is_chw ? "chw" : "hwc"));
    std::vector<std::uint8_t> pixels(3 * kPixels);  // all of the colour 10, 20, 30
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      pixels[i] = static_cast<std::uint8_t>(10 + 10 * (is_chw ? i / kPixels : i % 3));
    }
    const Shape shape = is_chw ? Shape{3, 2, 4} : Shape{2, 4, 3};
    EXPECT_EQ(keys.obs[0].MessageShape(), shape);
    const wire::Map message = {
        {"cam", Bytes(shape, pixels)}, {"grip", Floats({1})}, {"joints", Floats({1, 2})}};
    const Observations observations(keys, message);
    const ObsView cam = observations.At(0, 0).at(0);
    EXPECT_THAT(cam.shape.values(), ElementsAre(1, 2, 3));
    const auto* const found = static_cast<const std::uint8_t*>(cam.data);
    EXPECT_THAT(std::span(found, 6), ElementsAre(10, 20, 30, 10, 20, 30));

    const wire::Map unchanged = {
        {"cam", Bytes(keys.obs[0].spec.StorageShape(), {1, 2, 3, 4, 5, 6})},
        {"grip", Floats({1})},
        {"joints", Floats({1, 2})}};
    EXPECT_THAT(MessageOf(ErrorCode::kShape, [&] { Observations(keys, unchanged); }),
                HasSubstr("'cam' has shape [1, 2, 3], expected " + ToString(shape)));
  }
}

TEST(KeyMap, RefusesWhatItDoesNotKnow) {
  for (const char* const size : {"[2]", "[0, 4]", "[2, 100000]", "[2, 4, 3]"}) {
    EXPECT_THAT(
        MessageOf(ErrorCode::kConfig,
                  [&] { FromText(fmt::format(R"({{"obs": {{"cam": {{"size": {}}}}}}})", size)); }),
        HasSubstr("[height, width]"));
  }
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [] { FromText(R"({"obs": {"wrist": {}}})"); }),
              HasSubstr("wrist"));
  EXPECT_THAT(
      MessageOf(ErrorCode::kConfig, [] { FromText(R"({"obs": {"grip": {"layout": "chw"}}})"); }),
      HasSubstr("layout"));
  EXPECT_THAT(
      MessageOf(ErrorCode::kConfig, [] { FromText(R"({"obs": {"cam": {"layout": "whc"}}})"); }),
      HasSubstr("layout"));
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [] { MakeProtocol("grpc", ""); }),
              HasSubstr("openpi, vla_eval, groot and starvla"));
}

TEST(KeyMap, FindsKeysWithSlashesBeforeNestedOnes) {
  const wire::Map map = {{"a/b", 1.0}, {"a", wire::Map{{"b", 2.0}, {"c/d", 3.0}}}};
  EXPECT_EQ(*FindPath(map, "a/b")->If<double>(), 1.0);
  EXPECT_EQ(*FindPath(map, "a/c/d")->If<double>(), 3.0);
  EXPECT_EQ(FindPath(map, "a/c"), nullptr);
}

TEST(KeyMap, RefusesAnArrayThatIsTooShortForItsPart) {
  const KeyMap keys = FromText(R"({"obs": {"grip": {"key": "s", "first": 2},
                                           "joints": {"key": "s", "first": 0}}})");
  const wire::Map message = {{"cam", Bytes({1, 2, 3}, {0, 0, 0, 0, 0, 0})}, {"s", Floats({1, 2})}};
  EXPECT_THAT(MessageOf(ErrorCode::kShape, [&] { Observations(keys, message); }),
              HasSubstr("'s' has shape [2], expected [1] from number 2 on"));
}

TEST(Protocols, GrootNamesTheArraysThatItReads) {
  const KeyMap keys = FromText(R"({"obs": {"cam": {"key": "video/top"},
      "grip": {"key": "state/arm", "first": 2}, "joints": {"key": "state/arm", "first": 0}}})",
                               "groot");
  ClientRequest request;
  const auto speaks = MakeProtocol("groot", "");
  speaks->Read({.value = wire::Map{{"endpoint", "get_modality_config"}}},
               Metadata({.spec = kNamed}, keys, *speaks), &request);
  const wire::Message said = wire::Read(std::make_shared<const std::string>(request.said.bytes));
  const auto names = [&](const std::string& modality) {
    const auto& config = *said.value.If<wire::Map>()->Find<wire::Map>(modality);
    const auto& list = *config.Find<wire::Map>("as_json")->Find<wire::List>("modality_keys");
    std::vector<std::string> texts;
    for (const wire::Value& name : list) texts.push_back(*name.If<std::string>());
    return texts;
  };
  EXPECT_THAT(names("video"), ElementsAre("top"));
  EXPECT_THAT(names("state"), ElementsAre("arm"));
}

TEST(Protocols, SayWhichRequestTheyRefuse) {
  const auto refusal = [](const std::string& protocol, const wire::Map& asked) {
    const auto speaks = MakeProtocol(protocol, "");
    ClientRequest request;
    EXPECT_THROW(speaks->Read({.value = asked}, Metadata({.spec = kNamed}, {}, *speaks), &request),
                 Error);
    const net::Outgoing sent = speaks->Refuse(request, Refusal::kBadRequest, "why");
    return *wire::Read(std::make_shared<const std::string>(sent.bytes)).value.If<wire::Map>();
  };
  const wire::Map starvla = refusal("starvla", {{"type", "dance"}, {"request_id", "b"}});
  EXPECT_EQ(*starvla.Find<std::string>("request_id"), "b");
  const wire::Map bad_task = {{"task", wire::Map{{"seed", -1.0}}}};
  const wire::Map vla_eval = refusal(
      "vla_eval", {{"type", "episode_start"}, {"payload", bad_task}, {"seq", std::int64_t{7}}});
  EXPECT_EQ(*vla_eval.Find<std::int64_t>("seq"), 7);
  EXPECT_EQ(*vla_eval.Find<wire::Map>("payload")->Find<std::string>("error"),
            "episode_start_failed: bad_request: why");
}

TEST(Protocols, TakeTimeInProportionToAMessage) {
  std::vector<wire::Map::Entry> many;
  for (int i = 0; i < 400000; ++i) many.emplace_back(std::to_string(i), wire::Value());
  const wire::Message message{.value = wire::Map::OfDistinct(std::move(many))};
  for (const std::string name : {"openpi", "starvla"}) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(ReadBy(name, message).observations.at(0).entries().size(), 400000U);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  }
}

TEST(KeyMap, NamesOnlyTheFirstOfManyLongPaths) {
  std::vector<wire::Map::Entry> many;
  for (int i = 0; i < 1000; ++i) many.emplace_back(std::to_string(i), wire::Value());
  const wire::Map message = {{"cam", Bytes({1, 2, 3}, std::vector<std::uint8_t>(6))},
                             {"grip", Floats({1})},
                             {std::string(100000, 'x'), wire::Map::OfDistinct(std::move(many))}};
  const auto refusal = [](const wire::Map& refused) {
    return MessageOf(ErrorCode::kData, [&] { Observations(FromText("{}"), refused); });
  };
  const std::string missing = refusal(message);
  EXPECT_THAT(missing, HasSubstr("has no 'joints'; the policy needs 'cam', 'grip', 'joints', "
                                 "found 'cam', 'grip', 'xxx"));
  EXPECT_THAT(missing, HasSubstr("...' and 994 more"));
  wire::Map complete = message;
  complete.Add("joints", Floats({1, 2}));
  const std::string unknown = refusal(complete);
  EXPECT_THAT(unknown, HasSubstr("...' and 992 more, which the policy does not know"));
  EXPECT_LT(std::max(missing.size(), unknown.size()), 1500U);
}

TEST(KeyMap, RefusesKeysWithDifferentSteps) {
  const wire::Map message = {{"cam", Bytes({2, 1, 2, 3}, std::vector<std::uint8_t>(12))},
                             {"grip", Floats({1})},
                             {"joints", wire::FloatArray({2, 2}, std::vector<float>(4))}};
  EXPECT_THAT(MessageOf(ErrorCode::kShape, [&] { Observations(FromText("{}"), message); }),
              HasSubstr("'grip' has 1 rows of 1 steps, but another key has 1 of 2"));
}

}  // namespace
}  // namespace dp_bench::serve
