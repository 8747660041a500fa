// False alarms of the gate by score, simulated with a look after every pair. In each scene the mean
// change given the past is exactly that of the hypothesis; what differs is its distribution.
// DPB_FULL_SIMULATION=1 runs 100,000 gates, the figures of docs/ci_gate.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "compare/change_evidence.h"
#include "compare/intervals.h"
#include "dp_bench/random.h"

namespace dp_bench::compare {
namespace {

constexpr int kPairs = 400;  // looks per gate
constexpr double kMargin = 0.1;

// The next change, new minus old score. `memory` is kept from pair to pair and starts at 0.
using NextChange = std::function<double(RandomStream* random, double* memory)>;

struct ChangeScene {
  std::string name;
  NextChange next;
};

double Pick(RandomStream* random, std::initializer_list<double> values) {
  const auto i =
      static_cast<std::size_t>(random->UniformDouble() * static_cast<double>(values.size()));
  return values.begin()[std::min(i, values.size() - 1)];
}

// 1/2 to 1 by the time of success, 0 without: as time_to_success of a policy with rate 0.9.
double TimeScore(RandomStream* random) {
  if (random->UniformDouble() < 0.1) return 0.0;
  return 1.0 - 0.5 * (0.3 + 0.7 * random->UniformDouble() * random->UniformDouble());
}

std::vector<ChangeScene> EqualPolicies() {
  return {
      {"binary, half the seeds equal",
       [](RandomStream* random, double*) {
         return Pick(random, {-1.0, 0.0, 0.0, 1.0});
       }},
      {"discrete with ties",
       [](RandomStream* random, double*) {
         return Pick(random, {0.0, 0.0, 0.0, 0.25, 0.5, 1.0}) -
                Pick(random, {0.0, 0.0, 0.0, 0.25, 0.5, 1.0});
       }},
      {"rare large losses, frequent small gains",
       [](RandomStream* random, double*) { return random->UniformDouble() < 0.05 ? -0.95 : 0.05; }},
      {"rare large gains, frequent small losses",
       [](RandomStream* random, double*) { return random->UniformDouble() < 0.05 ? 0.95 : -0.05; }},
      {"time to success",
       [](RandomStream* random, double*) { return TimeScore(random) - TimeScore(random); }},
      // hard and easy seeds come in long rows, and the size of a change follows the one before
      {"dependent seeds",
       [](RandomStream* random, double* memory) {
         *memory = 0.9 * *memory + 0.1 * random->UniformDouble();
         const double size = std::min(1.0, 2.0 * *memory);
         const double change = random->UniformDouble() < 0.5 ? -size : size;
         *memory = 0.5 * (*memory + std::abs(change) * (change < 0.0 ? 1.0 : 0.2));
         return change;
       }},
  };
}

int GatesToSimulate(int usual) {
  return std::getenv("DPB_FULL_SIMULATION") != nullptr ? 100'000 : usual;
}

// How many of `n_gates` reach ln E >= `threshold` at any of kPairs looks.
template <class Evidence>
int CountAlarms(const ChangeScene& scene, double shift, const Evidence& start, double threshold,
                int n_gates) {
  int n_alarms = 0;
  for (int gate = 0; gate < n_gates; ++gate) {
    RandomStream random(static_cast<std::uint64_t>(gate), StreamId::kEnvStart);
    Evidence evidence = start;
    double memory = 0.0;
    for (int i = 0; i < kPairs; ++i) {
      const bool is_lost = shift > 0.0 && random.UniformDouble() < shift;
      const double change = scene.next(&random, &memory);
      evidence.Add(is_lost ? -1.0 : change);
      if (evidence.Log() < threshold) continue;
      ++n_alarms;
      break;
    }
  }
  return n_alarms;
}

void ExpectAtMost(double level, int n_alarms, int n_gates, const std::string& name) {
  const double share = static_cast<double>(n_alarms) / n_gates;
  std::printf("%-42s %.4f of at most %.2f\n", name.c_str(), share, level);
  // false alarms beyond the level would show as a lower bound above it
  EXPECT_LE(ClopperPearsonInterval(n_alarms, n_gates, 0.99).low, level) << name;
  if (n_gates >= 100'000) {
    EXPECT_LE(share, level) << name;
  }
}

TEST(GradedCharacteristics, FalseFailsStayBelowAlphaWithALookAfterEveryPair) {
  const int n_gates = GatesToSimulate(1500);
  for (const ChangeScene& scene : EqualPolicies()) {
    const FailEvidence start;
    ExpectAtMost(0.05, CountAlarms(scene, 0.0, start, -std::log(0.05), n_gates), n_gates,
                 scene.name);
  }
}

// With probability 0.1 a pair is a whole loss, so the mean change is -0.1.
TEST(GradedCharacteristics, FalsePassesStayBelowBetaAtTheMargin) {
  const int n_gates = GatesToSimulate(4000);
  for (const ChangeScene& scene : EqualPolicies()) {
    const PassEvidence start(kMargin);
    ExpectAtMost(0.05, CountAlarms(scene, kMargin, start, -std::log(0.05), n_gates), n_gates,
                 scene.name);
  }
}

}  // namespace
}  // namespace dp_bench::compare
