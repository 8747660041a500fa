// Messages of openpi-client, vla-eval, msgpack-numpy and GR00T, byte for byte.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "support/hex.h"
#include "support/json_golden.h"
#include "support/wire_values.h"

namespace dp_bench::wire {
namespace {

const NdArray kState = ArrayOf<float>("<f4", {2}, {1, 2});
const NdArray kPixel = ArrayOf<std::uint8_t>("|u1", {1, 1, 3}, {1, 2, 3});

Value Frame(std::string type, Map payload, std::int64_t seq) {
  return Map{
      {"type", std::move(type)}, {"payload", std::move(payload)}, {"seq", seq}, {"timestamp", 0.0}};
}

// The values of tests/golden/wire.json, by form and name.
const std::map<std::string, std::map<std::string, Value>>& GoldenValues() {
  static const std::map<std::string, std::map<std::string, Value>> kValues = {
      {"openpi",
       {{"empty", Map()},
        {"state", Map{{"state", kState}}},
        {"actions", Map{{"actions", ArrayOf<double>("<f8", {2, 1}, {1, 2})}}},
        {"image", Map{{"image", kPixel}, {"prompt", "a"}}},
        {"i64_0d", ArrayOf<std::int64_t>("<i8", {}, {7})},
        {"bools", ArrayOf<std::uint8_t>("|b1", {2}, {1, 0})}}},
      {"vla_eval",
       {{"hello",
         Frame("hello",
               {{"harness_version", "0.8.0"}, {"protocol_version", 1}, {"benchmark", "PushT"}}, 1)},
        {"episode_start", Frame("episode_start", {{"task", Map{{"name", "PushT"}}}}, 2)},
        {"observation",
         Frame("observation", {{"images", Map{{"c", kPixel}}}, {"state", kState}}, 3)},
        {"action", Frame("action", {{"actions", kState}}, 3)},
        {"error", Frame("error", {{"error", "x"}}, 3)}}},
      {"msgpack_numpy",
       {{"a", Map{{"a", ArrayOf<float>("<f4", {1, 2}, {1, 2})}}},
        {"pixel", kPixel},
        {"i64_0d", ArrayOf<std::int64_t>("<i8", {}, {7})},
        {"get_action",
         Map{{"endpoint", "get_action"},
             {"data", Map{{"observation",
                           Map{{"state", Map{{"arm", ArrayOf<float>("<f4", {1, 1, 2}, {1, 2})}}}}},
                          {"options", std::monostate()}}}}}}},
      {"npy",
       {{"a", Map{{"a", ArrayOf<float>("<f4", {1, 2}, {1, 2})}}},
        {"pixel", kPixel},
        {"vector", kState},
        {"i64_0d", ArrayOf<std::int64_t>("<i8", {}, {7})},
        {"none", ArrayOf<float>("<f4", {0, 3}, {})}}},
      {"any",
       {{"scalars",
         Map{{"nil", std::monostate()},
             {"yes", true},
             {"no", false},
             {"pi", 3.14},
             {"list", List{1, "a", Bytes{std::byte{1}, std::byte{0xff}}, List{}, Map()}}}},
        {"integers",
         List{0,          127,        128,       255,        256,         65535,       65536,
              4294967295, 4294967296, INT64_MAX, UINT64_MAX, -1,          -32,         -33,
              -128,       -129,       -32768,    -32769,     -2147483648, -2147483649, INT64_MIN}},
        {"texts", List{"", std::string(31, 'a'), std::string(32, 'a'), std::string(256, 'a'),
                       std::string(65536, 'a'), "\u00e9\u20ac\U0001f916"}}}}};
  return kValues;
}

const std::map<std::string, ArrayForm> kForms = {{"openpi", ArrayForm::kOpenPi},
                                                 {"vla_eval", ArrayForm::kVlaEval},
                                                 {"msgpack_numpy", ArrayForm::kMsgpackNumpy},
                                                 {"npy", ArrayForm::kNpy},
                                                 {"any", ArrayForm::kOpenPi}};

TEST(MessageGolden, EachFormIsReadAndWrittenAsThePackagesDo) {
  const nlohmann::json& golden = JsonGolden("wire");
  for (const auto& [form, values] : GoldenValues()) {
    for (const auto& [name, value] : values) {
      SCOPED_TRACE(form + " " + name);
      const std::string hex = golden["messages"][form].at(name);
      EXPECT_EQ(ToHex(Write(value, kForms.at(form))), hex);
      EXPECT_TRUE(AreSame(ReadBytes(FromHex(hex)).value, value));
    }
    EXPECT_EQ(values.size(), golden["messages"][form].size());
  }
}

std::string GoldenBytes(const std::string& name) {
  return FromHex(JsonGolden("wire")["read_only"].at(name));
}

TEST(MessageGolden, NumbersOfNumpyAreNumbers) {
  const std::vector<std::pair<std::string, Value>> numbers = {
      {"openpi_f32_scalar", 1.5},
      {"openpi_i16_scalar", -3},
      {"openpi_bool_scalar", true},
      {"msgpack_numpy_f32_scalar", 1.5},
      {"msgpack_numpy_f16_scalar", 1.5},
      {"msgpack_numpy_i16_scalar", -3},
      {"msgpack_numpy_u64_scalar", UINT64_MAX},
      {"msgpack_numpy_bool_scalar", true},
      {"float32", 1.5}};
  for (const auto& [name, number] : numbers) {
    const Message message = ReadBytes(GoldenBytes(name));
    EXPECT_TRUE(AreSame(message.value, number)) << name << ": " << Describe(message.value);
  }
}

TEST(MessageGolden, AnNpyFileInFortransOrderBecomesC) {
  const NdArray wanted = ArrayOf<std::int32_t>("<i4", {2, 3}, {0, 1, 2, 3, 4, 5});
  EXPECT_TRUE(AreSame(ReadBytes(GoldenBytes("fortran_npy")).value, Value(wanted)));
}

TEST(MessageGolden, PngFilesAreDecodedExactly) {
  std::vector<std::uint8_t> pixels(4 * 6 * 3);
  std::iota(pixels.begin(), pixels.end(), std::uint8_t{0});
  const Message message = ReadBytes(GoldenBytes("png"));
  EXPECT_EQ(message.array_form, ArrayForm::kVlaEval);
  const Value wanted = Map{{"image", ArrayOf("|u1", {4, 6, 3}, pixels)}};
  EXPECT_TRUE(AreSame(message.value, wanted));
}

}  // namespace
}  // namespace dp_bench::wire
