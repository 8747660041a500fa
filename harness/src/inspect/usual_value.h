// How a number of an episode, such as the first value of a channel, is distributed over the
// episodes, whatever a few of them (or a session of nearly half of them) have. Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dp_bench::inspect {

inline constexpr std::int64_t kMinUsualEpisodes = 5;  // fewer have no usual values
inline constexpr double kFarFromUsual = 6.0;          // deviations
inline constexpr double kNearUsual = 3.0;

/// Median and scaled median absolute deviation.
struct UsualValue {
  double median = 0.0;
  double deviation = 0.0;

  /// The distance from the median in deviations.
  double Distance(double value) const;
};

/// The middle one of the sorted `values`, which must not be empty.
double MedianOf(std::vector<double> values);

/// The usual one of `values`, one per episode. Its deviation is at least `smallest`, which must be
/// positive.
UsualValue UsualOf(const std::vector<double>& values, double smallest);

/// What is unusual in an episode.
struct UnusualEpisode {
  std::int64_t episode = 0;
  std::string what = {};
};

/// "'action' in episodes 3 to 9, from step 0: <what>" for each run of neighbouring episodes in
/// which the same is unusual; `found` is in the order of the episodes.
std::vector<std::string> DescribeRuns(const std::string& key,
                                      const std::vector<UnusualEpisode>& found);

}  // namespace dp_bench::inspect
