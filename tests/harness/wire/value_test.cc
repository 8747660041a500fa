#include "wire/value.h"

#include <gtest/gtest.h>

#include <vector>

namespace dp_bench::wire {
namespace {

TEST(WireValue, ACopyHasTheBytesOfTheArray) {
  Array array(DType::kInt32, {2, 2});
  array.as<std::int32_t>()[3] = 7;
  const NdArray copy = CopyOf(array);
  EXPECT_EQ(copy.dtype, "<i4");
  EXPECT_EQ(copy.shape, (Shape{2, 2}));
  EXPECT_NE(copy.bytes().data(), array.bytes().data());
  EXPECT_TRUE(std::ranges::equal(copy.bytes(), array.bytes()));
}

TEST(WireValue, AnArrayWithoutElementsHasNoBytes) {
  EXPECT_EQ(CopyOf("<f8", {0, 3}, {}).byte_size(), 0U);
  EXPECT_EQ(CopyOf("<f8", {}, std::vector<std::byte>(8)).byte_size(), 8U);
}

TEST(WireValue, NamesOfTypesAreThoseOfNumpy) {
  for (const DType dtype : {DType::kUInt8, DType::kUInt16, DType::kInt32, DType::kInt64,
                            DType::kFloat32, DType::kFloat64}) {
    EXPECT_EQ(FromNumpyName(NumpyName(dtype)), dtype);
    EXPECT_EQ(NumpyName(dtype)[2] - '0', static_cast<int>(SizeOf(dtype)));
  }
  EXPECT_EQ(FromNumpyName("<f2"), std::nullopt);
  EXPECT_EQ(FromNumpyName("|b1"), std::nullopt);
}

TEST(WireValue, AMapKeepsTheOrderOfItsKeys) {
  Map map = {{"b", 1}, {"a", "text"}};
  map.Add("c", List{true});
  ASSERT_EQ(map.entries().size(), 3U);
  EXPECT_EQ(map.entries()[0].first, "b");
  EXPECT_EQ(map.entries()[2].first, "c");
  EXPECT_EQ(*map.Find<std::int64_t>("b"), 1);
  EXPECT_EQ(map.Find<std::string>("b"), nullptr) << "of another kind";
  EXPECT_EQ(map.Find<std::string>("d"), nullptr);
  EXPECT_EQ(map.Find("d"), nullptr);
  EXPECT_DEATH(map.Add("a", 1), "");
}

TEST(WireValue, EachKindHasADescription) {
  const std::vector<std::pair<Value, std::string>> kinds = {
      {std::monostate(), "nothing"},
      {true, "true"},
      {7, "the integer 7"},
      {UINT64_MAX, "the integer 18446744073709551615"},
      {1.5, "the number 1.5"},
      {"abc", "text"},
      {Bytes(3), "3 bytes"},
      {CopyOf("|u1", {1, 3}, std::vector<std::byte>(3)), "an array |u1 [1, 3]"},
      {List{1, 2}, "a list of 2"},
      {Map{{"a", 1}}, "a map"}};
  for (const auto& [value, wanted] : kinds) EXPECT_EQ(Describe(value), wanted);
}

}  // namespace
}  // namespace dp_bench::wire
