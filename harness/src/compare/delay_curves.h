// Success against the time that a plan takes: finished evaluations that differ in delay, in the
// steps from plan to plan, and in the method that joins chunks (the grid of Black et al. 2025).
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace dp_bench::compare {

/// One evaluation of a grid, or of one of several.
struct DelayPoint {
  std::string policy;              // tells grids apart; empty if there is one
  std::string method;              // of env_runner.chunking, or a label for a curve
  std::optional<int> delay;        // [control steps] that a plan takes
  std::optional<double> delay_ms;  // the same as time; one of the two is set
  int execute = 0;                 // [control steps] from plan to plan; 0: as many as there are
  std::filesystem::path folder;    // of the run

  bool waits() const { return delay.value_or(0) == 0 && delay_ms.value_or(0.0) == 0.0; }
};

/// Points of one place in a grid are compared with each other.
using GridPlace = std::tuple<std::optional<int>, std::optional<double>, int>;
inline GridPlace PlaceOf(const DelayPoint& point) {
  return {point.delay, point.delay_ms, point.execute};
}

/// A point of delays.json: method, delay, delay_ms, execute, folder (relative to `base`).
nlohmann::json ToJson(const DelayPoint& point, const std::filesystem::path& base);

/// A row for each point, whose folder is read: what ToJson has of the point, policy (with several),
/// n_episodes, n_success, n_failed, success_rate with low and high (Wilson, 95 %), mean_score,
/// n_steps, n_stale_steps, stale_share, late_share, over_time (see success_over_time.h; null
/// without a success), jerk_at_seams and jerk_elsewhere (means over the episodes; see
/// rollout/action_jerk.h), and letters: points of the same delay and execute that share one do not
/// differ. Differences of success rates on shared seeds are {difference, low, high, p (McNemar,
/// exact), n_pairs}, or null:
///   against_naive     of the same policy, delay and execute
///   against_waiting   of the same policy, method and execute, at delay 0
///   against_first     of the first policy (with several), with equal method, delay and execute
///
/// Throws Error{kData} naming a point that is not a finished evaluation, or that has other seeds
/// than the others, and if more than kMaxComparedRuns have the same delay and execute.
nlohmann::json CompareDelays(std::span<const DelayPoint> points, const std::filesystem::path& base);

/// What delays.json says about its grid.
struct DelayGridFile {
  std::vector<DelayPoint> points;
  bool is_quasi_static = false;  // the env does not say that it moves without actions
};

/// Parses `text`, a delays.json in `folder`. Throws Error{kData} naming `origin`.
DelayGridFile ReadDelayGrid(std::string_view text, const std::filesystem::path& folder,
                            const std::string& origin);

}  // namespace dp_bench::compare
