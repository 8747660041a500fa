#include "planner/policy_planner.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "control/bid_planner.h"
#include "core/errors.h"
#include "policy/device.h"

namespace dp_bench::planner {

PolicyPlanner::PolicyPlanner(Policy& policy, torch::Device device, int micro_batch,
                             const control::ChunkingConfig& chunking)
    : policy_(policy), device_(device), micro_batch_(micro_batch), chunking_(chunking) {
  DPB_ASSERT(micro_batch >= 1);
  const bool is_given = chunking.method == control::ChunkingMethod::kTrainingTimeRtc;
  if (is_given && policy.max_prefix() < std::max(1, chunking.delay)) {
    throw ConfigError(
        "env_runner.chunking.method=training_time_rtc with a delay of {} steps: expected a policy "
        "trained with policy.params.max_prefix of at least that, found {}",
        chunking.delay, policy.max_prefix());
  }
  if (!chunking.continues_chunks() || policy.can_continue_chunks()) return;
  throw ConfigError(
      "env_runner.chunking.method={}: expected a policy whose plans can be guided, such as "
      "unet_hybrid or transformer, found one without this ability; set it to naive or bid",
      Name(chunking.method));
}

void PolicyPlanner::Plan(const control::ObsBatch& obs, std::span<const control::PlanRow> rows,
                         std::span<float> actions) {
  // padding rows are complete copies of the first
  std::vector<NoiseKey> keys(static_cast<std::size_t>(micro_batch_));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const control::PlanRow& row = rows[i < rows.size() ? i : 0];
    keys[i] = {.seed = row.seed, .major = row.env_step, .minor = row.sample};
  }
  NoiseSource noise(std::move(keys));

  const torch::NoGradGuard no_grad;
  const TensorMap on_device = policy::ObsToDevice(obs, policy_.spec().shape_meta, device_);
  const torch::Tensor chunk =
      (chunking_.continues_chunks() ? policy_.ContinueAction(on_device, PrefixOf(rows), noise)
                                    : policy_.PredictAction(on_device, noise))
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

ChunkPrefix PolicyPlanner::PrefixOf(std::span<const control::PlanRow> rows) const {
  const PolicySpec& spec = policy_.spec();
  const int n_steps = spec.horizons.n_action_steps;
  const std::int64_t action_dim = spec.shape_meta.action_dim();
  torch::Tensor actions = torch::zeros({micro_batch_, n_steps, action_dim});
  torch::Tensor weights = torch::zeros({micro_batch_, n_steps});
  const bool is_given = chunking_.method == control::ChunkingMethod::kTrainingTimeRtc;
  for (int i = 0; i < micro_batch_; ++i) {
    const control::PlanRow& row = rows[static_cast<std::size_t>(i) < rows.size() ? i : 0];
    std::ranges::copy(row.committed, actions[i].mutable_data_ptr<float>());
    const int n_committed = static_cast<int>(std::ssize(row.committed) / action_dim);
    // a policy was trained with prefixes up to its longest; a slow plan may take longer
    const int start = is_given ? std::min(row.delay, policy_.max_prefix()) : row.delay;
    std::ranges::copy(control::PrefixWeights(start, n_committed, n_steps, chunking_.schedule),
                      weights[i].mutable_data_ptr<float>());
  }
  return {.actions = actions.to(device_),
          .weights = weights.to(device_),
          .is_given = is_given,
          .max_guidance_weight = chunking_.max_guidance_weight,
          .has_full_jacobian = chunking_.has_full_jacobian};
}

std::string PolicyPlanner::FaultOf(std::size_t row) const {
  return row < faults_.size() ? faults_[row] : "";
}

std::unique_ptr<control::ChunkPlanner> MakePlanner(Policy& policy, torch::Device device,
                                                   int micro_batch,
                                                   const control::ChunkingConfig& chunking) {
  auto planner = std::make_unique<PolicyPlanner>(policy, device, micro_batch, chunking);
  if (chunking.method != control::ChunkingMethod::kBid) return planner;
  return std::make_unique<control::BidPlanner>(std::move(planner), chunking.n_samples,
                                               policy.spec().horizons.n_action_steps,
                                               policy.spec().shape_meta.action_dim());
}

}  // namespace dp_bench::planner
