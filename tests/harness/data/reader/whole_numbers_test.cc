#include "data/reader/whole_numbers.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace dp_bench::reader {
namespace {

template <class T>
std::optional<std::int64_t> Find(std::vector<T> values) {
  return FindInexact(std::span<const T>(values));
}

TEST(WholeNumbers, AreExactIfTheySurviveTheWayToFloat32AndBack) {
  for (const std::int64_t start : {std::int64_t{1} << 24, std::int64_t{1} << 31,
                                   std::int64_t{1} << 40, std::int64_t{3} << 60}) {
    for (std::int64_t value = start - 300; value < start + 300; ++value) {
      const bool is_exact =
          static_cast<__int128>(static_cast<float>(value)) == static_cast<__int128>(value);
      ASSERT_EQ(Find<std::int64_t>({0, value}).has_value(), !is_exact) << value;
      ASSERT_EQ(Find<std::int64_t>({0, -value}).has_value(), !is_exact) << -value;
    }
  }
}

TEST(WholeNumbers, TheFirstIsFoundInEveryType) {
  EXPECT_EQ(Find<std::int32_t>({1, -16777217, 16777219}), 1);
  EXPECT_EQ(Find<std::uint32_t>({1, 16777216, 4294967295}), 2);
  EXPECT_EQ(Find<std::uint64_t>({std::numeric_limits<std::uint64_t>::max()}), 0);
  EXPECT_EQ(Find<std::int64_t>({std::numeric_limits<std::int64_t>::min()}), std::nullopt);
  EXPECT_EQ(Find<std::uint16_t>({65535}), std::nullopt);
  EXPECT_EQ(Find<std::uint8_t>({255}), std::nullopt);
  EXPECT_EQ(Find<std::int64_t>({}), std::nullopt);
}

}  // namespace
}  // namespace dp_bench::reader
