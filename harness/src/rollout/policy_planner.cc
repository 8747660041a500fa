#include "rollout/policy_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "dp_bench/error.h"

namespace dp_bench {

PolicyPlanner::PolicyPlanner(Policy& policy, torch::Device device, int micro_batch)
    : policy_(policy), device_(device), micro_batch_(micro_batch) {
  DPB_ASSERT(micro_batch >= 1);
}

void PolicyPlanner::Plan(const ObsBatch& obs, std::span<const PlanRow> rows,
                         std::span<float> actions) {
  // padding rows repeat the first in every respect
  std::vector<NoiseKey> keys(static_cast<std::size_t>(micro_batch_));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const PlanRow& row = rows[i < rows.size() ? i : 0];
    keys[i] = {.seed = row.seed, .major = row.env_step};
  }
  NoiseSource noise(std::move(keys));

  const torch::NoGradGuard no_grad;
  const torch::Tensor chunk =
      policy_.PredictAction(ToDevice(obs), noise).to(torch::kCPU, torch::kFloat32).contiguous();

  const PolicySpec& spec = policy_.spec();
  const std::vector<std::int64_t> wanted = {micro_batch_, spec.horizons.n_action_steps,
                                            spec.shape_meta.action_dim()};
  if (chunk.sizes() != torch::IntArrayRef(wanted)) {
    throw Error(ErrorCode::kShape,
                fmt::format("the policy predicted actions of shape {}, wanted {}",
                            ToString(chunk.sizes().vec()), ToString(wanted)));
  }
  std::copy_n(chunk.const_data_ptr<float>(), actions.size(), actions.begin());
}

TensorMap PolicyPlanner::ToDevice(const ObsBatch& obs) const {
  TensorMap tensors;
  for (const KeySpec& key : policy_.spec().shape_meta.obs) {
    const auto found = obs.find(key.name);
    if (found == obs.end()) {
      throw Error(ErrorCode::kShape,
                  fmt::format("the policy wants '{}', which was not observed", key.name));
    }
    const Array& array = found->second;
    // a view: the buffers outlive the call, and no policy writes to its observations
    torch::Tensor tensor = torch::from_blob(const_cast<std::byte*>(array.bytes().data()),
                                            array.shape(), ToScalarType(array.dtype()))
                               .to(device_);
    // images: [B, To, H, W, C] -> [B, To, C, H, W]
    if (key.type != KeyType::kLowDim) tensor = tensor.permute({0, 1, 4, 2, 3});
    tensors.emplace(key.name, std::move(tensor));
  }
  return tensors;
}

}  // namespace dp_bench
