// A policy as a source of actions. It observes every step and plans a new chunk when the last one
// is used up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dp_bench/env.h"
#include "dp_bench/spec.h"
#include "plugin/obs_memory.h"
#include "rollout/chunk_planner.h"
#include "rollout/obs_history.h"
#include "view/action_source.h"

namespace dp_bench::view {

/// Fills a whole micro-batch of the planner with the one episode, so that the actions have the same
/// bits as in an evaluation: (checkpoint, env, seed) is shown as it was scored.
class PlannerSource final : public ActionSource {
 public:
  /// All arguments must outlive the source. Throws Error{kShape} if the env lacks something that
  /// `shape_meta` asks for.
  PlannerSource(Env& env, rollout::ChunkPlanner& planner, const ShapeMeta& shape_meta,
                const Horizons& horizons);

  std::string_view name() const override { return "policy"; }
  void Begin(std::uint64_t episode) override;

  /// Throws Error{kNumeric} on an action that is not finite.
  Supply Next(std::span<float> action) override;

 private:
  void Observe();
  void Plan();

  Env& env_;
  rollout::ChunkPlanner& planner_;
  Horizons horizons_;
  std::vector<int> obs_index_of_env_;  // index into shape_meta.obs, or -1
  plugin::ObsMemory seen_;             // the latest observation
  rollout::ObsHistory history_;
  rollout::ObsBatch obs_;
  std::vector<float> chunks_;  // [M, Ta, Da]; row 0 is executed
  rollout::PlanRow row_;
  int next_ = 0;  // the next step of the chunk
};

}  // namespace dp_bench::view
