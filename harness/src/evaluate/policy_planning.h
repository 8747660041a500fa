// How long a policy's plans take, in rollouts and alone. Measuring changes no plan. Includes
// LibTorch.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "control/chunk_planner.h"
#include "control/chunking_config.h"
#include "dp_bench/policy.h"
#include "dp_bench/spec.h"
#include "run/planning.h"

namespace dp_bench::evaluate {

/// Forwards to another planner and times it. Its stages are timed until `device` has finished them.
class TimedPlanner final : public control::ChunkPlanner {
 public:
  /// `planner` must outlive it.
  TimedPlanner(control::ChunkPlanner& planner, torch::Device device)
      : planner_(planner), device_(device) {}

  int batch_size() const override { return planner_.batch_size(); }
  void Plan(const control::ObsBatch& obs, std::span<const control::PlanRow> rows,
            std::span<float> actions) override;
  std::string FaultOf(std::size_t row) const override { return planner_.FaultOf(row); }

  /// Covers the plans that did not throw and gave actions for all rows.
  const run::PlanningLatency& latency() const { return latency_; }

  /// The first row of each of the first plans: a few dozen, or as many as fit into 64 MiB, at least
  /// one.
  const std::vector<control::RecordedObs>& recorded() const { return recorded_; }

 private:
  void Keep(const control::ObsBatch& obs, const control::PlanRow& row);

  control::ChunkPlanner& planner_;
  torch::Device device_;
  run::PlanningLatency latency_;
  std::vector<control::RecordedObs> recorded_;
  std::size_t recorded_bytes_ = 0;
};

/// Plans single rows, as a robot does: these in turn for 0.2 s, 10 to 48 times, after a warm-up
/// that does not count. Ends at the first plan without actions.
run::PlanningLatency MeasurePlanningAlone(Policy& policy, torch::Device device,
                                          const control::ChunkingConfig& chunking,
                                          std::span<const control::RecordedObs> rows);

/// The summary of MeasurePlanningAlone. Throws Error{kEnv} if the policy gave no actions at all.
run::LatencySummary RequireLatencyAlone(Policy& policy, torch::Device device,
                                        const control::ChunkingConfig& chunking,
                                        std::span<const control::RecordedObs> rows);

/// Random numbers in the shapes of the policy's observations, for use if nothing was recorded.
control::RecordedObs SyntheticObs(const PolicySpec& spec);

}  // namespace dp_bench::evaluate
