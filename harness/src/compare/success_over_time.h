// Success over time: when episodes succeed, and whether the success lasts. Time counts in env
// steps.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "compare/intervals.h"
#include "run/episode_record.h"

namespace dp_bench::compare {

/// Until when an episode was observed.
struct ObservedTime {
  int step = 0;
  bool is_success = false;  // at that step; else it had not succeeded so far (censored)
};

/// The share of the episodes that succeeded by this step.
struct SuccessByStep {
  int step = 0;
  double share = 0.0;
  double low = 0.0;
  double high = 0.0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SuccessByStep, step, share, low, high)

/// The curve of Kaplan and Meier (1958, "Nonparametric estimation from incomplete observations"),
/// as 1 - S: one point per step in which an episode succeeded. The intervals (95 %) are of
/// Greenwood's variance on the scale ln(-ln S) (Kalbfleisch and Prentice 1980).
std::vector<SuccessByStep> KaplanMeier(std::span<const ObservedTime> times);

/// The restricted mean time to success: the mean of the smaller of the time and `horizon`, the area
/// below S up to there (Royston and Parmar 2013). `n` counts the episodes; the interval (95 %) is
/// normal, with Greenwood's variance. Needs at least one episode.
MeanInterval RestrictedMeanTime(std::span<const ObservedTime> times, int horizon);

/// Successes per step of simulation over all episodes, with the interval (95 %) of a ratio of means
/// by the delta method (Cochran 1977, "Sampling Techniques", 6.4).
struct Throughput {
  double per_step = 0.0;
  double low = 0.0;
  double high = 0.0;
};
Throughput SuccessesPerStep(std::span<const run::EpisodeRecord> records, std::string_view split);

constexpr int kHeldSteps = 10;

/// Three definitions of success, of one set of episodes.
struct SuccessDefinitions {
  RateInterval at_any_time;  // in at least one step: the success rate of every report
  RateInterval at_end;       // in the last step
  RateInterval held;         // in kHeldSteps steps in a row
  /// A definition is outside of the interval of the success rate.
  bool disagree() const;
};

struct SuccessOverTime {
  std::vector<SuccessByStep> curve;
  int horizon = 0;               // steps
  MeanInterval restricted_mean;  // [steps]
  Throughput throughput;
  /// None if episodes end with their success, or if rows of an older version do not say.
  std::optional<SuccessDefinitions> definitions;
};

/// The steps of the longest episode of a split.
int LongestEpisode(std::span<const run::EpisodeRecord> records, std::string_view split);

/// Of the episodes of a split, up to `horizon`: at least the longest episode, and for runs that are
/// compared the longest of all, because a mean that ends earlier is smaller. An episode without
/// success counts as not successful up to there, also if it ended or broke earlier: more time would
/// not have helped. None without a success, or if a success does not say its step.
std::optional<SuccessOverTime> DescribeSuccessOverTime(std::span<const run::EpisodeRecord> records,
                                                       std::string_view split, int horizon);

/// {horizon, restricted_mean: {mean, low, high}, per_1000_steps: {rate, low, high}, per_hour (with
/// `control_hz` > 0, else null), curve: [{step, share, low, high}], definitions (null if none)}
nlohmann::json ToJson(const SuccessOverTime& described, double control_hz = 0.0);

}  // namespace dp_bench::compare
