// The unsuccessful episodes, grouped by how they failed, with the earliest sign of each failure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "run/episode_record.h"

namespace dp_bench::compare {

enum class FailureKind {
  kFailedToRun,   // it broke: failure_reason says how
  kEndedEarly,    // the env ended it unsolved: dropped, or beyond rescue
  kNeverReached,  // hardly any progress
  kDiverged,      // progress was made and lost again
  kTimeout,       // some progress, but the steps ran out
  kUnknown,       // the row does not contain the course of the reward
};

/// Something that most episodes of a cluster show.
struct FailureSign {
  double step = 0.0;  // median over the episodes that show it
  std::string text;   // "the reward stopped rising at step 84 (median)"
};

struct FailureCluster {
  FailureKind kind = FailureKind::kUnknown;
  std::vector<const run::EpisodeRecord*> episodes;  // in the order of the records, never empty
  double median_score = 0.0;                        // of their scores
  std::vector<FailureSign> signs;                   // earliest first
  std::string note;                                 // other facts; may be empty
};

/// "diverged", and a sentence that explains it.
std::string_view NameOf(FailureKind kind);
std::string_view MeaningOf(FailureKind kind);

/// The clusters of a split, the largest first; empty if all episodes succeeded. "Hardly any
/// progress" means less than a tenth of the way from the first reward to the goal. The goal is the
/// median of the highest rewards of successful episodes, or without any, 1 or the highest reward of
/// the split. What the score is does not matter. The clusters point into `records`.
std::vector<FailureCluster> FailureClusters(std::span<const run::EpisodeRecord> records,
                                            std::string_view split);

}  // namespace dp_bench::compare
