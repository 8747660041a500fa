#include "planner/method_planner.h"

namespace dp_bench::planner {

MethodPlanner::MethodPlanner(Policy& policy, torch::Device device, int micro_batch,
                             const control::ChunkingConfig& chunking)
    : single_(policy, device, micro_batch, chunking),
      bid_(single_, chunking.n_samples, policy.spec().horizons.n_action_steps,
           policy.spec().shape_meta.action_dim()),
      chosen_(chunking.method == control::ChunkingMethod::kBid
                  ? static_cast<control::ChunkPlanner&>(bid_)
                  : single_) {}

}  // namespace dp_bench::planner
