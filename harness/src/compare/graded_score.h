// Which number of an episode decides a gate: its success, or a score in [0, 1]. A baseline fixes it
// before the candidate runs.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compare/pairing.h"
#include "run/episode_record.h"
#include "run/run_folder.h"

namespace dp_bench::compare {

// Values of run::RunFolder::decided_by.
inline constexpr std::string_view kBySuccess = "success";
inline constexpr std::string_view kByScore = "score";
inline constexpr std::string_view kByTime = "time_to_success";

inline constexpr std::array kScores = {kBySuccess, kByScore, kByTime};

/// For a sentence: "success rate", "mean score", "mean score for time to success".
std::string ScoreTitle(std::string_view decided_by);

/// The step after which the env first reported success; none if the episode was not successful or
/// the row, of an older version, does not say. If the env ended the episode, it is the last step.
std::optional<int> StepOfSuccess(const run::EpisodeRecord& record);

/// The score of an episode of `run`, in [0, 1], by which `baseline` decides.
///   success          1 or 0
///   score            as recorded: the highest reward, or env_runner.score_metric
///   time_to_success  0 without success, else 1 at once and 1/2 at the horizon of the baseline
/// An episode that broke has 0. Throws Error{kData}, naming the run and the seed, for a recorded
/// score outside of [0, 1] or a success whose step is unknown.
double GradedScore(const run::RunFolder& baseline, const run::RunFolder& run,
                   const run::EpisodeRecord& record);

/// The scores of two paired runs, B minus A, at any number of pairs.
struct GradedComparison {
  std::string decided_by;
  int n_pairs = 0;
  double difference = 0.0;  // of the means
  double low = -1.0;        // holds at every look, 95 %
  double high = 1.0;
  double log_worse_evidence = 0.0;   // ln E against "B's mean is at least A's"
  double log_better_evidence = 0.0;  // ln E against "B's mean is at most A's"
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GradedComparison, decided_by, n_pairs, difference, low, high,
                                   log_worse_evidence, log_better_evidence)

/// By score and by time_to_success, as far as both runs have them in [0, 1].
std::vector<GradedComparison> CompareGraded(const run::RunFolder& a, const run::RunFolder& b,
                                            const PairedOutcomes& outcomes);

}  // namespace dp_bench::compare
