// A policy that plans as its chunking method asks.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <span>
#include <string>

#include "control/bid_planner.h"
#include "control/chunk_planner.h"
#include "control/chunking_config.h"
#include "dp_bench/policy.h"
#include "planner/policy_planner.h"

namespace dp_bench::planner {

class MethodPlanner final : public control::ChunkPlanner {
 public:
  /// `policy` must outlive it. Throws what PolicyPlanner throws.
  MethodPlanner(Policy& policy, torch::Device device, int micro_batch,
                const control::ChunkingConfig& chunking);

  int batch_size() const override { return single_.batch_size(); }
  void Plan(const control::ObsBatch& obs, std::span<const control::PlanRow> rows,
            std::span<float> actions) override {
    chosen_.Plan(obs, rows, actions);
  }
  std::string FaultOf(std::size_t row) const override { return chosen_.FaultOf(row); }

 private:
  PolicyPlanner single_;
  control::BidPlanner bid_;
  control::ChunkPlanner& chosen_;  // one of them
};

}  // namespace dp_bench::planner
