#include "planner/policy_planner.h"

#include <algorithm>
#include <vector>

#include "core/errors.h"
#include "policy/device.h"

namespace dp_bench::planner {

PolicyPlanner::PolicyPlanner(Policy& policy, torch::Device device, int micro_batch)
    : policy_(policy), device_(device), micro_batch_(micro_batch) {
  DPB_ASSERT(micro_batch >= 1);
}

void PolicyPlanner::Plan(const control::ObsBatch& obs, std::span<const control::PlanRow> rows,
                         std::span<float> actions) {
  // padding rows are complete copies of the first
  std::vector<NoiseKey> keys(static_cast<std::size_t>(micro_batch_));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const control::PlanRow& row = rows[i < rows.size() ? i : 0];
    keys[i] = {.seed = row.seed, .major = row.env_step};
  }
  NoiseSource noise(std::move(keys));

  const torch::NoGradGuard no_grad;
  const torch::Tensor chunk =
      policy_.PredictAction(policy::ObsToDevice(obs, policy_.spec().shape_meta, device_), noise)
          .to(torch::kCPU, torch::kFloat32)
          .contiguous();

  faults_ = policy_.RowFaults();

  const PolicySpec& spec = policy_.spec();
  const std::vector<std::int64_t> wanted = {micro_batch_, spec.horizons.n_action_steps,
                                            spec.shape_meta.action_dim()};
  if (chunk.sizes() != torch::IntArrayRef(wanted)) {
    throw ShapeError("the policy predicted actions of shape {}, expected {}",
                     ToString(chunk.sizes().vec()), ToString(wanted));
  }
  std::copy_n(chunk.const_data_ptr<float>(), actions.size(), actions.begin());
}

std::string PolicyPlanner::FaultOf(std::size_t row) const {
  return row < faults_.size() ? faults_[row] : "";
}

}  // namespace dp_bench::planner
