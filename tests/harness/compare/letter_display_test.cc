#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compare/policy_ranking.h"
#include "dp_bench/random.h"

namespace dp_bench::compare {
namespace {

using testing::ElementsAre;
using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

bool ShareALetter(const std::string& a, const std::string& b) {
  return a.find_first_of(b) != std::string::npos;
}

TEST(LetterDisplay, GivesOneLetterToRunsThatDoNotDiffer) {
  EXPECT_THAT(LetterDisplay(3, Pairs{}), ElementsAre("a", "a", "a"));
}

TEST(LetterDisplay, GivesEachItsOwnWhereAllDiffer) {
  EXPECT_THAT(LetterDisplay(3, Pairs{{0, 1}, {0, 2}, {1, 2}}), ElementsAre("a", "b", "c"));
}

TEST(LetterDisplay, GivesTheOneInBetweenBothLetters) {
  EXPECT_THAT(LetterDisplay(3, Pairs{{0, 2}}), ElementsAre("a", "ab", "b"));
  EXPECT_THAT(LetterDisplay(4, Pairs{{0, 2}, {0, 3}, {1, 3}}), ElementsAre("a", "ab", "bc", "c"));
}

// Worked out by hand: 0 and 3 differ, and so do 1 and 2. Four pairs are left, which form a ring,
// and none of them is within another.
TEST(LetterDisplay, GivesARingOneLetterPerEdge) {
  EXPECT_THAT(LetterDisplay(4, Pairs{{0, 3}, {1, 2}}), ElementsAre("ab", "ac", "bd", "cd"));
}

TEST(LetterDisplay, SaysExactlyWhichPairsDifferAndWastesNoLetter) {
  RandomStream random(1, StreamId::kEnvNoise);
  for (int trial = 0; trial < 200; ++trial) {
    constexpr std::size_t kRuns = 7;
    Pairs different;
    for (std::size_t a = 0; a < kRuns; ++a) {
      for (std::size_t b = a + 1; b < kRuns; ++b) {
        if (random.UniformDouble() < 0.4) different.emplace_back(a, b);
      }
    }
    const std::vector<std::string> letters = LetterDisplay(kRuns, different);
    for (std::size_t a = 0; a < kRuns; ++a) {
      EXPECT_FALSE(letters[a].empty());
      for (std::size_t b = a + 1; b < kRuns; ++b) {
        const bool differ = std::ranges::find(different, std::pair(a, b)) != different.end();
        EXPECT_EQ(ShareALetter(letters[a], letters[b]), !differ);
      }
    }
    // no letter's runs are a subset of another letter's runs
    for (char inner = 'a'; inner < 'z'; ++inner) {
      for (char outer = 'a'; outer < 'z'; ++outer) {
        const auto has = [](const std::string& text, char c) {
          return text.find(c) != std::string::npos;
        };
        if (inner == outer) continue;
        int n_inner = 0;
        bool is_within = true;
        for (const std::string& text : letters) {
          n_inner += has(text, inner) ? 1 : 0;
          is_within = is_within && (!has(text, inner) || has(text, outer));
        }
        EXPECT_TRUE(n_inner == 0 || !is_within);
      }
    }
  }
}

}  // namespace
}  // namespace dp_bench::compare
