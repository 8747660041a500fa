// A policy as a source of actions: a control loop that observes every step of the env.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "control/chunk_planner.h"
#include "control/control_loop.h"
#include "dp_bench/deploy.h"
#include "dp_bench/env.h"
#include "dp_bench/spec.h"
#include "plugin/obs_memory.h"
#include "view/action_source.h"

namespace dp_bench::view {

/// Fills a whole micro-batch of the planner with the one episode, so that the actions have the same
/// bits as in an evaluation: (checkpoint, env, seed) is shown as it was scored.
class PlannerSource final : public ActionSource {
 public:
  /// All arguments must outlive the source. Throws Error{kShape} if the env lacks something that
  /// `shape_meta` asks for.
  PlannerSource(Env& env, control::ChunkPlanner& planner, const ShapeMeta& shape_meta,
                const Horizons& horizons);

  std::string_view name() const override { return "policy"; }
  void Begin(std::uint64_t episode) override { loop_.Reset(episode); }

  /// Throws Error{kNumeric} on an observation or action that is not finite.
  Supply Next(std::span<float> action) override;

 private:
  Env& env_;
  plugin::ObsMemory seen_;       // the latest observation
  std::vector<ObsView> wanted_;  // of it: what the policy reads
  control::ControlLoop loop_;
};

}  // namespace dp_bench::view
