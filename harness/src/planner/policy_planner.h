// Asks a policy for action chunks: host buffers to tensors and back, one noise stream per row.
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "control/chunk_planner.h"
#include "control/chunking_config.h"
#include "dp_bench/policy.h"

namespace dp_bench::planner {

/// Always runs exactly `micro_batch` rows. The noise of a row is NoiseKey{seed of the episode, env
/// step, sample}: it does not depend on its place in the batch or the number of earlier plans.
class PolicyPlanner : public control::ChunkPlanner {
 public:
  /// `policy` must outlive the planner, have its normalizer and live on `device`. Throws
  /// Error{kConfig} if `chunking` guides plans and the policy cannot.
  PolicyPlanner(Policy& policy, torch::Device device, int micro_batch,
                const control::ChunkingConfig& chunking = {});

  int batch_size() const override { return micro_batch_; }

  /// Throws Error{kShape} if the policy returns anything but [M, Ta, Da], and what the policy
  /// throws.
  void Plan(const control::ObsBatch& obs, std::span<const control::PlanRow> rows,
            std::span<float> actions) override;
  std::string FaultOf(std::size_t row) const override;

 private:
  ChunkPrefix PrefixOf(std::span<const control::PlanRow> rows) const;

  Policy& policy_;
  torch::Device device_;
  int micro_batch_;
  control::ChunkingConfig chunking_;
  std::vector<std::string> faults_;  // of the last plan's rows
};

/// A planner that asks `policy`, which must outlive it, as the chunking method wants. Throws what
/// PolicyPlanner throws.
std::unique_ptr<control::ChunkPlanner> MakePlanner(Policy& policy, torch::Device device,
                                                   int micro_batch,
                                                   const control::ChunkingConfig& chunking);

}  // namespace dp_bench::planner
