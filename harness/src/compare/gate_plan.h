// How many pairs does a gate need until it shows a drop of a given size? The answer is a
// simulation: gates on recorded episodes in which the drop was planted.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compare/sequential_test.h"
#include "run/run_folder.h"

namespace dp_bench::compare {

/// No simulated gate gets more pairs.
inline constexpr int kMaxPlannedPairs = 20'000;

/// Drops that a gate is often asked about.
inline constexpr std::array kUsualDrops = {0.03, 0.05, 0.1, 0.2};

struct GatePlanQuestion {
  /// Of the success rate; each above 0 and at most the rate. Of kUsualDrops, those that are larger
  /// than the rate are left out.
  std::vector<double> drops;
  /// Between the old and the new score of a seed, in [0, 1). Only used without a candidate.
  double correlation = 0.0;
};

/// What the simulated gates of one drop needed.
struct PlannedDrop {
  double drop = 0.0;        // of the success rate
  double score_drop = 0.0;  // of the mean of what decides; the same if success decides
  // Pairs until FAIL if PASS did not end the gate; none: more than kMaxPlannedPairs. The mean is
  // none if a single gate needed more.
  std::optional<int> median;
  std::optional<double> mean;
  std::optional<int> quantile_90;
  // The shares of gates that end so within the max_pairs of the config.
  double fail_rate = 0.0;
  double pass_rate = 0.0;
};

struct GatePlan {
  std::string task;              // may be empty
  SequentialTestConfig config;   // with what decides
  int n_episodes = 0;            // recorded seeds that the simulation draws from
  double success_rate = 0.0;     // before the drop
  double correlation = 0.0;      // between the old and the new score of a seed
  bool is_measured = false;      // the correlation comes from a candidate
  bool has_equal_pairs = false;  // no score differs between the two runs
  int n_gates = 0;               // simulated for each drop
  std::vector<PlannedDrop> drops;
};

/// Simulates gates of `config`, whose false alarms are for this task alone (ConfigOfTask), with
/// what the baseline decides by. The seeds are drawn with replacement. With a candidate (may be
/// null; of the same task and seeds, see RunGate), either of the two episodes of a seed is the old
/// one at random, so that without the planted drop the mean change is 0. Without one, the old and
/// the new episode are the same one with the probability `correlation`, else drawn independently,
/// which gives that correlation. The drop is planted by turning a share of the new successes into
/// failures, whatever the old episode was; a policy that is also slower is found earlier where
/// time_to_success decides. The random numbers are fixed. Throws Error{kUsage} for a drop or
/// correlation that cannot be, and if no episode was successful; Error{kData} as GradedScore.
GatePlan PlanGate(const run::RunFolder& baseline, const run::RunFolder* candidate,
                  const SequentialTestConfig& config, const GatePlanQuestion& question);

/// One entry per task, with format. Absent numbers are null.
nlohmann::json ToJson(const std::vector<GatePlan>& plans);

}  // namespace dp_bench::compare
