// Known answers of np.random.RandomState, written by tests/golden/generate/pusht.py.
#include "legacy_random.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pusht_env.h"
#include "support/golden.h"

namespace dp_bench::pusht {
namespace {

const ArrayMap& GoldenDraws() { return Golden("pusht").tensors; }

std::vector<double> Draws(std::uint64_t seed) {
  LegacyRandomState random(seed);
  std::vector<double> draws;
  for (int i = 0; i < 2; ++i) draws.push_back(static_cast<double>(random.RandInt(50, 450)));
  for (int i = 0; i < 2; ++i) draws.push_back(static_cast<double>(random.RandInt(100, 400)));
  draws.push_back(static_cast<double>(random.RandInt(0, std::int64_t{1} << 32)));
  draws.push_back(static_cast<double>(random.RandInt(7, 8)));
  for (int i = 0; i < 2; ++i) draws.push_back(random.UniformDouble());
  for (int i = 0; i < 4; ++i) draws.push_back(random.Randn());
  return draws;
}

TEST(LegacyRandomState, DrawsWhatNumpyDraws) {
  int n_seeds = 0;
  for (const auto& [name, values] : GoldenDraws()) {
    if (name.rfind("random.", 0) != 0) continue;
    const std::vector<double> draws = Draws(std::stoull(name.substr(7)));
    const auto wanted = values.as<double>();
    ASSERT_EQ(draws.size(), wanted.size());
    // the normals use the C library's log, whose last bit may be rounded differently
    for (std::size_t i = 0; i < draws.size(); ++i) EXPECT_DOUBLE_EQ(draws[i], wanted[i]) << name;
    ++n_seeds;
  }
  EXPECT_EQ(n_seeds, 6);
}

TEST(LegacyRandomState, StaysInStepWithTheStandardEngineOverSeveralTwists) {
  LegacyRandomState random(5489);
  std::uint32_t last = 0;
  for (int i = 0; i < 10000; ++i) last = random.NextU32();
  EXPECT_EQ(last, 4123659995U);  // the C++ standard's requirement on mt19937, [rand.predef]
}

}  // namespace
}  // namespace dp_bench::pusht
