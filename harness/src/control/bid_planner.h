// Bidirectional decoding (Liu et al. 2024, arXiv 2408.17355): many plans for each observation, of
// which the one that continues the old chunk best is executed. It needs actions only, so it works
// for every policy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "control/chunk_planner.h"
#include "control/chunking_config.h"

namespace dp_bench::control {

/// Plans sample after sample with another planner. The loss of a sample is its backward coherence:
/// the sum over the steps of |action - old action| times PrefixWeights with kExponential, which are
/// those of the reference implementation. The forward contrast needs a second, weaker policy and is
/// left out. The first plan of an episode is its first sample. Distances are in raw units.
class BidPlanner final : public ChunkPlanner {
 public:
  BidPlanner(std::unique_ptr<ChunkPlanner> planner, int n_samples, int n_action_steps,
             std::int64_t action_dim);

  int batch_size() const override { return planner_->batch_size(); }
  void Plan(const ObsBatch& obs, std::span<const PlanRow> rows, std::span<float> actions) override;
  std::string FaultOf(std::size_t row) const override;

 private:
  double LossOf(const PlanRow& row, std::span<const float> chunk) const;

  std::unique_ptr<ChunkPlanner> planner_;
  int n_samples_;
  int n_action_steps_;
  std::size_t action_dim_;
  std::vector<std::string> faults_;  // of rows without an action in any sample
};

}  // namespace dp_bench::control
