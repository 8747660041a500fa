// The episodes that did not succeed, grouped by how they failed, with the earliest sign of it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "run/episode_record.h"

namespace dp_bench::compare {

enum class FailureKind {
  kFailedToRun,   // it broke: failure_reason says how
  kEndedEarly,    // the env ended it, not solved: dropped, or beyond rescue
  kNeverReached,  // hardly any progress
  kDiverged,      // progress was made, and lost again
  kTimeout,       // some progress, and then no steps left
  kUnknown,       // the row does not say how the reward went
};

/// Something that most episodes of a cluster show.
struct FailureSign {
  double step = 0.0;  // median over the episodes that show it
  int n = 0;          // how many do
  std::string text;   // "the score stopped rising at step 84 (median)"
};

struct FailureCluster {
  FailureKind kind = FailureKind::kUnknown;
  std::vector<const run::EpisodeRecord*> episodes;  // in the order of the records, never empty
  double median_score = 0.0;                        // of their best rewards
  std::vector<FailureSign> signs;                   // earliest first
  std::string note;                                 // what else is known; may be empty
};

/// "diverged", and what it means in a sentence.
std::string_view NameOf(FailureKind kind);
std::string_view MeaningOf(FailureKind kind);

/// The clusters of a split, the largest first; none when all episodes succeeded. Hardly
/// any progress is less than a tenth of the way from the first reward to what successful episodes
/// reach (their median score; without any, to 1 or the best score of the split). They point into
/// `records`.
std::vector<FailureCluster> FailureClusters(std::span<const run::EpisodeRecord> records,
                                            std::string_view split);

}  // namespace dp_bench::compare
