#include "compare/graded_score.h"

#include <algorithm>

#include "compare/sequential_test.h"
#include "compare/success_over_time.h"
#include "core/errors.h"

namespace dp_bench::compare {

std::string ScoreTitle(std::string_view decided_by) {
  if (decided_by == kBySuccess) return "success rate";
  return decided_by == kByScore ? "mean score" : "mean score for time to success";
}

std::optional<int> StepOfSuccess(const run::EpisodeRecord& record) {
  if (!record.success) return std::nullopt;
  if (record.success_steps.first > 0) return record.success_steps.first;
  if (record.course && record.course->is_terminated) return record.n_steps;
  return std::nullopt;
}

double GradedScore(const run::RunFolder& baseline, const run::RunFolder& run,
                   const run::EpisodeRecord& record) {
  if (baseline.decided_by == kBySuccess) return record.success ? 1.0 : 0.0;
  if (record.failure_reason) return 0.0;
  if (baseline.decided_by == kByScore) {
    if (record.score >= 0.0 && record.score <= 1.0) return record.score;
    throw DataError(
        "{}: a gate by score needs scores between 0 and 1, but seed {} has {}. Choose a metric in "
        "that range with env_runner.score_metric, or decide by success",
        run.path.string(), record.seed, record.score);
  }
  if (!record.success) return 0.0;
  const std::optional<int> step = StepOfSuccess(record);
  if (!step) {
    throw DataError(
        "{}: a gate by time_to_success needs the step of success, which seed {} does not have; "
        "evaluate again with this version, or decide by success",
        run.path.string(), record.seed);
  }
  // success counts at least a half, so that a fast failure never beats a slow success
  const double share = static_cast<double>(std::min(*step, baseline.horizon)) / baseline.horizon;
  return 1.0 - 0.5 * share;
}

std::vector<GradedComparison> CompareGraded(const run::RunFolder& a, const run::RunFolder& b,
                                            const PairedOutcomes& outcomes) {
  std::vector<GradedComparison> compared;
  if (outcomes.pairs.empty()) return compared;
  run::RunFolder rule;
  rule.horizon = std::max(1, LongestEpisode(a.episodes, "test"));  // times are divided by it
  for (const std::string_view decided_by : {kByScore, kByTime}) {
    rule.decided_by = decided_by;
    std::vector<double> changes;
    FailEvidence worse;
    FailEvidence better;
    try {
      for (const EpisodePair& pair : outcomes.pairs) {
        changes.push_back(GradedScore(rule, b, pair.b) - GradedScore(rule, a, pair.a));
        worse.Add(changes.back());
        better.Add(-changes.back());
      }
    } catch (const Error&) {  // no such score
      continue;
    }
    const DropInterval drop = AnytimeDropInterval(changes);
    compared.push_back({.decided_by = std::string(decided_by),
                        .n_pairs = static_cast<int>(changes.size()),
                        .difference = -drop.drop,
                        .low = -drop.high,
                        .high = -drop.low,
                        .log_worse_evidence = worse.Log(),
                        .log_better_evidence = better.Log()});
  }
  return compared;
}

}  // namespace dp_bench::compare
