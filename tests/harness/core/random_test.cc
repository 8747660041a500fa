// Known answers of Philox4x32-10 (Random123, kat_vectors), our own bits as a regression test, and
// the statistics of each distribution.
#include "dp_bench/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <set>
#include <vector>

#include "core/random_streams.h"

namespace dp_bench::core {
namespace {

using Block = std::array<std::uint32_t, 4>;

// Two draws of float32 below 8 differ by at most one unit in the last place, 2^-21, if the double
// results before rounding agree to 1e-11.
constexpr double kNormalTolerance = 0x1p-21;

TEST(Philox, AgreesWithTheKnownAnswersOfRandom123) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  constexpr std::uint32_t kOnes = 0xFFFFFFFF;
  EXPECT_EQ(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Block{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  // the digits of pi
  EXPECT_EQ(Philox4x32({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}),
            (Block{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

TEST(RandomStream, KeepsItsBitsForever) {
  RandomStream words(0, StreamId::kEnvStart);
  for (const std::uint32_t expected : {0x40892754U, 0x4F1A097EU, 0x261374E1U, 0x2F9E2F43U}) {
    EXPECT_EQ(words.NextU32(), expected);
  }
  RandomStream mixed(42, core::kShuffleStream, std::uint64_t{1} << 40U, 9);
  EXPECT_EQ(mixed.UniformInt(1000), 484U);
  EXPECT_EQ(mixed.UniformDouble(), 0.55461033603180265);
  EXPECT_EQ(mixed.Uniform(), 0.336548448F);

  RandomStream normals(42, StreamId::kPolicyNoise, 7, 3);
  for (const float expected : {-0x1.504e84p+0F, -0x1.578864p-7F, 0x1.04fbep+1F, -0x1.3782p+0F,
                               0x1.b933c4p-2F, -0x1.ac5032p-3F, -0x1.231194p-3F, 0x1.481c58p+0F}) {
    EXPECT_EQ(normals.Normal(), expected);
  }
}

TEST(RandomStream, EveryPartOfItsNameSelectsAnotherStream) {
  std::set<std::array<std::uint32_t, 4>> seen;
  int n_streams = 0;
  for (const std::uint64_t seed : {0ULL, 1ULL, 1ULL << 32U}) {
    for (const StreamId id : {StreamId::kEnvStart, StreamId::kPolicyNoise, core::kInitStream}) {
      for (const std::uint64_t major : {0ULL, 1ULL, 1ULL << 32U, (1ULL << 32U) + 1}) {
        for (const std::uint32_t minor : {0U, 1U, 0xFFFFFFFFU}) {
          RandomStream stream(seed, id, major, minor);
          seen.insert({stream.NextU32(), stream.NextU32(), stream.NextU32(), stream.NextU32()});
          ++n_streams;
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(n_streams));
}

TEST(RandomStream, ACopyContinuesFromTheSamePosition) {
  RandomStream stream(5, StreamId::kAugment);
  stream.Normal();
  RandomStream copy = stream;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(stream.Normal(), copy.Normal());
}

TEST(RandomStream, UniformsFillTheirIntervalEvenly) {
  constexpr int kDraws = 200'000;
  RandomStream stream(1, StreamId::kAugment);
  double sum = 0.0;
  double sum_double = 0.0;
  for (int i = 0; i < kDraws; ++i) {
    const float x = stream.Uniform();
    const double y = stream.UniformDouble();
    ASSERT_TRUE(x >= 0.0F && x < 1.0F && y >= 0.0 && y < 1.0);
    sum += static_cast<double>(x);
    sum_double += y;
  }
  const double five_sigma = 5.0 / std::sqrt(12.0 * kDraws);
  EXPECT_NEAR(sum / kDraws, 0.5, five_sigma);
  EXPECT_NEAR(sum_double / kDraws, 0.5, five_sigma);
}

TEST(RandomStream, BoundedIntegersAreUnbiased) {
  // 3 * 2^30: without rejection, the low third of the range would occur twice as often
  constexpr std::uint32_t kBound = 3U << 30U;
  constexpr int kDraws = 90'000;
  RandomStream stream(2, core::kShuffleStream);
  std::array<int, 3> counts = {};
  for (int i = 0; i < kDraws; ++i) ++counts[stream.UniformInt(kBound) >> 30U];
  const double five_sigma = 5.0 * std::sqrt(kDraws * (1.0 / 3.0) * (2.0 / 3.0));
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 3.0, five_sigma);

  EXPECT_EQ(stream.UniformInt(1), 0U);
  std::set<std::uint32_t> values;
  for (int i = 0; i < 200; ++i) values.insert(stream.UniformInt(7));
  EXPECT_EQ(values, (std::set<std::uint32_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(RandomStream, NormalsAreBoxMullerOfTheSameWords) {
  RandomStream stream(3, StreamId::kTrainingNoise);
  RandomStream words = stream;
  for (int i = 0; i < 50'000; ++i) {
    const double u = (static_cast<double>(words.NextU32()) + 0.5) * 0x1p-32;
    const double angle = 2.0 * std::numbers::pi * static_cast<double>(words.NextU32()) * 0x1p-32;
    const double radius = std::sqrt(-2.0 * std::log(u));
    ASSERT_NEAR(stream.Normal(), radius * std::cos(angle), kNormalTolerance);
    ASSERT_NEAR(stream.Normal(), radius * std::sin(angle), kNormalTolerance);
  }
}

TEST(RandomStream, NormalsHaveTheMomentsAndTailsOfTheNormalDistribution) {
  constexpr int kDraws = 400'000;
  RandomStream stream(4, StreamId::kPolicyNoise);
  std::array<double, 4> moments = {};
  int n_beyond_two = 0;
  for (int i = 0; i < kDraws; ++i) {
    const auto x = static_cast<double>(stream.Normal());
    n_beyond_two += std::abs(x) > 2.0 ? 1 : 0;
    double power = 1.0;
    for (double& moment : moments) moment += (power *= x) / kDraws;
  }
  // variances of x, x^2, x^3 and x^4 are 1, 2, 15 and 96
  const double root = std::sqrt(static_cast<double>(kDraws));
  EXPECT_NEAR(moments[0], 0.0, 5.0 / root);
  EXPECT_NEAR(moments[1], 1.0, 5.0 * std::sqrt(2.0) / root);
  EXPECT_NEAR(moments[2], 0.0, 5.0 * std::sqrt(15.0) / root);
  EXPECT_NEAR(moments[3], 3.0, 5.0 * std::sqrt(96.0) / root);
  EXPECT_NEAR(n_beyond_two / static_cast<double>(kDraws), 0.0455003, 5.0 * 0.2084 / root);
}

}  // namespace
}  // namespace dp_bench::core
