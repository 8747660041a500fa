// The gate over many repetitions: how often it is wrong, how often it detects a drop, and how many
// seeds that takes. Simulated with our own random streams, so every figure is the same on every
// machine. Compared with gates that numpy simulates (tests/golden/compare.json).
// DPB_FULL_SIMULATION=1 runs 100,000 gates everywhere, which takes minutes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "compare/intervals.h"
#include "compare/sequential_test.h"
#include "dp_bench/random.h"
#include "support/json_golden.h"

namespace dp_bench::compare {
namespace {

bool IsFull() { return std::getenv("DPB_FULL_SIMULATION") != nullptr; }
int GatesOr(int n_gates) { return IsFull() ? 100'000 : n_gates; }

/// The joint distribution of a seed's outcomes before and after a change.
struct Scene {
  double rate = 0.65;  // success rate before
  double drop = 0.0;   // after: rate - drop
  double rho = 0.5;    // correlation over seeds, if the rates allow it

  double both() const {
    const double after = rate - drop;
    const double wanted =
        rate * after + rho * std::sqrt(rate * (1.0 - rate) * after * (1.0 - after));
    return std::min({wanted, rate, after});
  }
  double lost() const { return rate - both(); }
  double gained() const { return rate - drop - both(); }
};

/// Draws seeds one by one.
class SceneStream {
 public:
  SceneStream(const Scene& scene, std::uint64_t gate)
      : stream_(1234, StreamId::kEnvStart, gate),
        lost_(scene.lost()),
        changed_(scene.lost() + scene.gained()) {}

  void Next(OutcomeCounts* counts) {
    const double draw = stream_.Uniform();
    ++(draw < lost_ ? counts->n_lost : draw < changed_ ? counts->n_gained : counts->n_same);
  }

 private:
  RandomStream stream_;
  double lost_;
  double changed_;
};

struct GateCounts {
  int n_gates = 0;
  int n_fail = 0;
  int n_pass = 0;
  double n_pairs = 0.0;

  double fail() const { return 100.0 * n_fail / n_gates; }  // [%]
  double pass() const { return 100.0 * n_pass / n_gates; }  // [%]
  double mean_pairs() const { return n_pairs / n_gates; }
};

GateCounts Simulate(const SequentialTestConfig& config, const Scene& scene, int n_gates) {
  GateCounts result = {.n_gates = n_gates};
  for (int gate = 0; gate < n_gates; ++gate) {
    SceneStream seeds(scene, static_cast<std::uint64_t>(gate));
    SequentialTest test(config);
    while (!test.is_finished()) {
      OutcomeCounts one;
      seeds.Next(&one);
      test.Add(one.n_gained == 0, one.n_lost == 0);
    }
    result.n_fail += test.verdict() == Verdict::kFail ? 1 : 0;
    result.n_pass += test.verdict() == Verdict::kPass ? 1 : 0;
    result.n_pairs += test.counts().n_pairs();
  }
  return result;
}

// One-sided, exact (Clopper and Pearson).
double UpperBound99(int n, int n_trials) { return ClopperPearsonInterval(n, n_trials, 0.98).high; }

TEST(OperatingCharacteristics, HundredThousandGatesWithoutAChangeRarelyFail) {
  for (const Scene& scene : {Scene{.rate = 0.65, .rho = 0.5}, Scene{.rate = 0.65, .rho = 0.0},
                             Scene{.rate = 0.90, .rho = 0.5}}) {
    const GateCounts found = Simulate(SequentialTestConfig::PullRequest(), scene, 100'000);
    const double bound = UpperBound99(found.n_fail, found.n_gates);
    EXPECT_LE(bound, 0.01) << "rate " << scene.rate << " rho " << scene.rho;
    std::printf("rate %.2f rho %.1f: false FAIL %.3f %%, upper 99 %% bound %.3f %%\n", scene.rate,
                scene.rho, found.fail(), 100.0 * bound);
  }
}

// Harder than the gate: it looks after every single pair, up to 3000, and no PASS ends it.
TEST(OperatingCharacteristics, FailEvidenceHoldsUnderConstantPeeking) {
  const int n_gates = GatesOr(4000);
  int n_01 = 0;
  int n_05 = 0;
  for (int gate = 0; gate < n_gates; ++gate) {
    SceneStream seeds({.rate = 0.65, .rho = 0.5}, static_cast<std::uint64_t>(gate));
    OutcomeCounts counts;
    double largest = 0.0;
    for (int i = 0; i < 3000; ++i) {
      const int n_lost = counts.n_lost;
      seeds.Next(&counts);
      // only a loss raises the evidence
      if (counts.n_lost > n_lost) largest = std::max(largest, LogFailEvidence(counts));
    }
    n_01 += largest >= -std::log(0.01) ? 1 : 0;
    n_05 += largest >= -std::log(0.05) ? 1 : 0;
  }
  std::printf("alpha .01: %.4f, alpha .05: %.4f\n", static_cast<double>(n_01) / n_gates,
              static_cast<double>(n_05) / n_gates);
  EXPECT_LE(UpperBound99(n_01, n_gates), 0.0125);
  EXPECT_LE(UpperBound99(n_05, n_gates), 0.05);
  EXPECT_NEAR(static_cast<double>(n_01) / n_gates, 0.0063, 0.004);
  EXPECT_NEAR(static_cast<double>(n_05) / n_gates, 0.037, 0.008);
}

TEST(OperatingCharacteristics, PassEvidenceHoldsUnderConstantPeekingAtTheMargin) {
  const int n_gates = GatesOr(500);
  int n_pass = 0;
  for (int gate = 0; gate < n_gates; ++gate) {
    SceneStream seeds({.rate = 0.65, .drop = 0.10, .rho = 0.5}, static_cast<std::uint64_t>(gate));
    PassEvidence evidence(0.10);
    bool is_pass = false;
    for (int n = 0; n < 3000 && !is_pass; ++n) {
      OutcomeCounts one;
      seeds.Next(&one);
      evidence.Add(one.n_gained - one.n_lost);
      is_pass = evidence.Log() >= -std::log(0.05);
    }
    n_pass += is_pass ? 1 : 0;
  }
  std::printf("false PASS at the margin: %.4f\n", static_cast<double>(n_pass) / n_gates);
  EXPECT_NEAR(static_cast<double>(n_pass) / n_gates, 0.040, 0.02);
}

// Of gates for pull requests, and of nightly ones with blocks of 20. The tolerance is
// 4 standard errors of ours; numpy's has ten times as many gates.
TEST(OperatingCharacteristics, AreThoseOfAnotherImplementation) {
  int n_rows = 0;
  const int n_gates = GatesOr(4000);
  for (const nlohmann::json& row : JsonGolden("compare")["gate"]) {
    SCOPED_TRACE(row.dump());
    const Scene scene = {.rate = row[0], .drop = row[1], .rho = row[2]};
    const GateCounts found =
        Simulate({.margin = row[3], .max_pairs = row[4], .block_size = row[5]}, scene, n_gates);
    const auto tolerance = [&](double p) {
      return 4.0 * std::sqrt(std::max(p * (1.0 - p), 1.0 / n_gates) / n_gates);
    };
    EXPECT_NEAR(found.fail() / 100.0, row[6], tolerance(row[6]));
    EXPECT_NEAR(found.pass() / 100.0, row[7], tolerance(row[7]));
    EXPECT_NEAR(found.mean_pairs(), row[8], 4.0 * 0.5 * row[4].get<double>() / std::sqrt(n_gates));
    ++n_rows;
  }
  EXPECT_EQ(n_rows, 35);
}

}  // namespace
}  // namespace dp_bench::compare
