#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compare/sequential_test.h"
#include "dp_bench/random.h"
#include "support/json_golden.h"

namespace dp_bench::compare {
namespace {

using testing::ElementsAre;

std::vector<double> Logs(const std::vector<double>& values) {
  std::vector<double> logs;
  for (const double value : values) logs.push_back(std::log(value));
  return logs;
}

TEST(LogMeanEvidence, IsTheMeanAlsoWhereItOverflows) {
  EXPECT_NEAR(LogMeanEvidence(Logs({1.0, 2.0, 6.0})), std::log(3.0), 1e-14);
  EXPECT_NEAR(LogMeanEvidence(std::vector<double>{2000.0, 0.0}), 2000.0 - std::log(2.0), 1e-12);
  EXPECT_DOUBLE_EQ(LogMeanEvidence(std::vector<double>{-3.0}), -3.0);
}

TEST(NameDrops, TakesTheLargestKWhoseKthReachesItsThreshold) {
  // with 4 tasks and alpha .1 the thresholds are 40, 20, 13.3, 10
  EXPECT_THAT(NameDrops(Logs({1, 41, 1, 1}), 0.1), ElementsAre(false, true, false, false));
  EXPECT_THAT(NameDrops(Logs({39, 1, 1, 19}), 0.1), ElementsAre(false, false, false, false));
  EXPECT_THAT(NameDrops(Logs({21, 1, 1, 21}), 0.1), ElementsAre(true, false, false, true));
  // the largest values alone would not be enough: the third carries them
  EXPECT_THAT(NameDrops(Logs({14, 15, 16, 1}), 0.1), ElementsAre(true, true, true, false));
  EXPECT_THAT(NameDrops(Logs({101}), 0.01), ElementsAre(true));
}

TEST(NameDrops, AgreesWithAnotherImplementation) {
  for (const auto& row : JsonGolden("compare")["e_bh"]) {
    const auto log_evidence = row[0].get<std::vector<double>>();
    EXPECT_EQ(NameDrops(log_evidence, row[1].get<double>()), row[2].get<std::vector<bool>>());
    EXPECT_NEAR(LogMeanEvidence(log_evidence), row[3].get<double>(), 1e-10);
  }
}

TEST(NameDrops, NamesNoneWithoutAMeanOfOneOverAlpha) {
  RandomStream random(5, StreamId::kEnvNoise);
  for (int i = 0; i < 2000; ++i) {
    std::vector<double> log_evidence;
    for (int k = 0; k < 5; ++k) log_evidence.push_back(8.0 * random.UniformDouble() - 2.0);
    const std::vector<bool> names = NameDrops(log_evidence, 0.01);
    if (std::find(names.begin(), names.end(), true) == names.end()) continue;
    EXPECT_GE(LogMeanEvidence(log_evidence), std::log(100.0) - 1e-12);
  }
}

}  // namespace
}  // namespace dp_bench::compare
