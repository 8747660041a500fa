// The 206 recorded episodes of the public PushT demonstrations, replayed in our env: set the first
// recorded state, play the recorded actions, compare every state with the recorded one. Uses the
// plugins as the harness does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "dp_bench/dataset.h"
#include "dp_bench/env.h"
#include "plugin/catalogue.h"
#include "support/pusht_demonstrations.h"
#include "support/read_all.h"

namespace dp_bench {
namespace {

// pymunk 6.11.1 (gym-pusht 0.1.8) on the same episodes, from the same states: its mean of the
// highest coverages, and its median final block error against the recording, the size of float32
// rounding
constexpr double kPymunkMeanMaxCoverage = 0.8994;
constexpr double kMaxCoverageGap = 0.001;
constexpr double kMaxMedianError = 1e-4;  // [px]
constexpr double kMaxError = 1.0;         // [px]; pymunk's own worst is 0.70

struct Outcome {
  double max_coverage = 0.0;
  double final_error_px = 0.0;
};

/// Plays one episode; `state` and `action` start at its first step.
Outcome Replay(Env& env, const float* state, const float* action, std::size_t steps) {
  Outcome outcome;
  std::vector<double> full(env.spec().abilities.state_size);
  full[0] = state[0];  // at rest: agent and block velocities stay 0
  full[1] = state[1];
  full[4] = state[2];
  full[5] = state[3];
  full[6] = state[4];
  env.SetState(full);
  for (std::size_t t = 0; t < steps; ++t) {
    env.GetState(full);
    outcome.final_error_px = std::hypot(full[4] - state[5 * t + 2], full[5] - state[5 * t + 3]);
    const StepResult result = env.Step({action + 2 * t, 2});
    outcome.max_coverage = std::max(outcome.max_coverage, result.metrics[0]);
    if (result.terminated) {
      // the recording continues past success
      env.GetState(full);
      env.SetState(full);
    }
  }
  return outcome;
}

TEST(PushtReplay, FollowsTheRecordedEpisodes) {
  const std::filesystem::path demonstrations = FindPushtDemonstrations();
  if (demonstrations.empty()) GTEST_SKIP() << kNoPushtDemonstrations;
  plugin::PluginCatalogue catalogue({DPB_PLUGIN_DIR});
  const auto dataset = catalogue.Create<Dataset>(
      "zarr_replay", Config::FromJson(R"({"path": ")" + demonstrations.string() +
                                      R"(", "keys": {"action": {"array": "data/action"},
                                          "state": {"array": "data/state"}}})"));
  const auto env = catalogue.Create<Env>("pusht", Config::FromJson("{}"));
  const std::vector<float> states = ReadAll<float>(*dataset, "state");
  const std::vector<float> actions = ReadAll<float>(*dataset, "action");

  std::vector<double> errors;
  double coverage_sum = 0.0;
  std::size_t begin = 0;
  for (const std::int64_t episode_end : dataset->episode_ends()) {
    const auto end = static_cast<std::size_t>(episode_end);
    const Outcome outcome = Replay(*env, &states[5 * begin], &actions[2 * begin], end - begin);
    errors.push_back(outcome.final_error_px);
    coverage_sum += outcome.max_coverage;
    begin = end;
  }
  std::sort(errors.begin(), errors.end());
  const double median = errors[errors.size() / 2];
  const double mean_coverage = coverage_sum / static_cast<double>(errors.size());
  std::cout << errors.size() << " episodes: final block error, median " << median << " px, worst "
            << errors.back() << " px; mean max coverage " << mean_coverage << "\n";
  EXPECT_LT(median, kMaxMedianError);
  EXPECT_LT(errors.back(), kMaxError);
  EXPECT_NEAR(mean_coverage, kPymunkMeanMaxCoverage, kMaxCoverageGap);
}

}  // namespace
}  // namespace dp_bench
