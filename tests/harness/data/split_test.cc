#include "data/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dp_bench/error.h"
#include "support/json_golden.h"

namespace dp_bench::data {
namespace {

// As in the generator: depends on every value and on the order.
std::int64_t Checksum(const std::vector<std::int64_t>& values) {
  constexpr std::int64_t kPrime = (std::int64_t{1} << 61) - 1;
  __extension__ __int128 total = 0;
  for (const std::int64_t value : values) total = (total * 1'000'003 + value + 1) % kPrime;
  return static_cast<std::int64_t>(total);
}

std::vector<std::int64_t> Episodes(const std::vector<bool>& mask) {
  std::vector<std::int64_t> episodes;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i]) episodes.push_back(static_cast<std::int64_t>(i));
  }
  return episodes;
}

TEST(NumpyChoice, EqualsNumpyForEverySeedAndSize) {
  const nlohmann::json cases = JsonGolden("data")["choice"];
  ASSERT_GT(cases.size(), 100U);
  for (const nlohmann::json& c : cases) {
    const auto chosen = NumpyChoice(c["seed"].get<std::uint64_t>(), c["n"].get<std::int64_t>(),
                                    c["size"].get<std::int64_t>());
    ASSERT_EQ(chosen.size(), c["size"].get<std::size_t>());
    const auto first = c["first"].get<std::vector<std::int64_t>>();
    EXPECT_TRUE(std::equal(first.begin(), first.end(), chosen.begin())) << c.dump();
    EXPECT_EQ(Checksum(chosen), c["checksum"].get<std::int64_t>()) << c.dump();
  }
}

TEST(Split, ValidationMaskEqualsTheReference) {
  const nlohmann::json cases = JsonGolden("data")["val"];
  for (const nlohmann::json& c : cases) {
    const auto mask = ValidationMask(c["n"].get<std::int64_t>(), c["ratio"].get<double>(),
                                     c["seed"].get<std::uint64_t>());
    EXPECT_EQ(Episodes(mask), c["episodes"].get<std::vector<std::int64_t>>()) << c.dump();
  }
}

TEST(Split, TrainMaskEqualsTheReference) {
  const nlohmann::json cases = JsonGolden("data")["train"];
  for (const nlohmann::json& c : cases) {
    const Split split =
        SplitEpisodes(c["n"].get<std::int64_t>(), c["ratio"].get<double>(),
                      c["max_train"].get<std::int64_t>(), c["seed"].get<std::uint64_t>());
    EXPECT_EQ(Episodes(split.train), c["episodes"].get<std::vector<std::int64_t>>()) << c.dump();
  }
}

TEST(Split, WithoutALimitEveryEpisodeHasOneSide) {
  const Split split = SplitEpisodes(206, 0.02, std::nullopt, 42);
  for (std::size_t i = 0; i < 206; ++i) EXPECT_NE(split.train[i], split.val[i]);
  EXPECT_EQ(Episodes(split.val).size(), 4U);
}

TEST(Split, RefusesSharesAndLimitsWithoutMeaning) {
  EXPECT_THROW(ValidationMask(10, -0.1, 0), Error);
  EXPECT_THROW(ValidationMask(10, 1.5, 0), Error);
  EXPECT_THROW(DownsampleMask({true, true}, -1, 0), Error);
}

}  // namespace
}  // namespace dp_bench::data
