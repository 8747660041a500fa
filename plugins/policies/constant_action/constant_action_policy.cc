// See constant_action_policy.h. Read it from top to bottom: it shows what each call of the contract
// must do.
#include "constant_action_policy.h"

#include <fmt/format.h>

#include "dp_bench/error.h"

namespace dp_bench::constant_action {
namespace {

using torch::Tensor;

// Requires every key of shape_meta as [B, To, shape...] and returns B. A message gives the key,
// what was expected and what was found, so that the user can repair the config.
std::int64_t CheckObs(const TensorMap& obs, const PolicySpec& spec) {
  std::int64_t batch_size = -1;
  for (const KeySpec& key : spec.shape_meta.obs) {
    const auto found = obs.find(key.name);
    if (found == obs.end() || !found->second.defined() || found->second.dim() == 0) {
      throw Error(ErrorCode::kShape,
                  fmt::format("observation '{}' of shape_meta is missing", key.name));
    }
    if (batch_size < 0) batch_size = found->second.size(0);
    Shape wanted = {batch_size, spec.horizons.n_obs_steps};
    wanted.insert(wanted.end(), key.shape.begin(), key.shape.end());
    if (found->second.sizes() != wanted) {
      throw Error(ErrorCode::kShape,
                  fmt::format("observation '{}' must be {}, found {}", key.name, ToString(wanted),
                              ToString(found->second.sizes().vec())));
    }
  }
  return batch_size;
}

}  // namespace

std::unique_ptr<Policy> ConstantActionPolicy::Create(const Config& params, const PolicySpec& spec) {
  return std::make_unique<ConstantActionPolicy>(params, spec);
}

ConstantActionPolicy::ConstantActionPolicy(const Config& params, const PolicySpec& spec)
    : spec_(spec), module_(std::make_shared<torch::nn::Module>("ConstantActionPolicy")) {
  // read every key here, with its default and what it means: a key that you do not read is
  // reported to the user as a typo
  const double initial =
      params.GetInRange("initial_naction", 0.0, -1.0, 1.0, "normalized action before the training");

  // registered parameters are trained, averaged by EMA and saved under these names
  naction_ =
      module_->register_parameter("naction", torch::full({spec_.shape_meta.action_dim()}, initial));
}

void ConstantActionPolicy::SetNormalizer(const Normalizer& normalizer) {
  if (!normalizer.fields().contains("action")) {
    throw Error(ErrorCode::kData, "the normalizer has no statistics for 'action'");
  }
  normalizer_ = normalizer;
  normalizer_->To(naction_.device());
}

LossOutput ConstantActionPolicy::ComputeLoss(const Batch& batch, NoiseSource& /*noise*/) {
  RequireNormalizer();
  CheckObs(batch.obs, spec_);

  // networks use normalized values; batches are in raw units
  const Tensor target = normalizer_->Normalize("action", batch.action);  // [B, T, Da]
  const Tensor loss = torch::mse_loss(naction_.expand_as(target), target);
  return {.loss = loss, .parts = {{"naction_norm", naction_.detach().norm()}}};
}

Tensor ConstantActionPolicy::PredictAction(const TensorMap& obs, NoiseSource& /*noise*/) {
  const torch::NoGradGuard no_grad;
  RequireNormalizer();
  const std::int64_t batch_size = CheckObs(obs, spec_);

  // the same action for every row and every one of the Ta executed steps, back in raw units
  const Tensor action = normalizer_->Unnormalize("action", naction_);
  return action.expand({batch_size, spec_.horizons.n_action_steps, -1}).contiguous();
}

void ConstantActionPolicy::RequireNormalizer() const {
  if (normalizer_.has_value()) return;
  throw Error(ErrorCode::kData,
              "constant_action has no normalizer; call SetNormalizer before ComputeLoss and "
              "PredictAction");
}

}  // namespace dp_bench::constant_action
