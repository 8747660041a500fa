// See constant_action_policy.h. Read it from top to bottom: it shows what a policy must do.
#include "constant_action_policy.h"

namespace dp_bench::constant_action {

using torch::Tensor;

std::unique_ptr<Policy> ConstantActionPolicy::Create(const Config& params, const PolicySpec& spec) {
  return std::make_unique<ConstantActionPolicy>(params, spec);
}

ConstantActionPolicy::ConstantActionPolicy(const Config& params, const PolicySpec& spec)
    : PolicyBase("constant_action", spec) {
  // read every key here, with its default and what it means: a key that you do not read is
  // reported to the user as a typo
  const double initial =
      params.GetInRange("initial_naction", 0.0, -1.0, 1.0, "normalized action before the training");

  // registered parameters are trained, averaged by EMA and saved under these names
  naction_ = module().register_parameter("naction", torch::full({action_dim()}, initial));
}

LossOutput ConstantActionPolicy::BatchLoss(const Batch& batch, NoiseSource& /*noise*/) {
  // networks use normalized values; batches are in raw units
  const Tensor target = normalizer().Normalize("action", batch.action);  // [B, T, Da]
  const Tensor loss = torch::mse_loss(naction_.expand_as(target), target);
  return {.loss = loss, .parts = {{"naction_norm", naction_.detach().norm()}}};
}

Tensor ConstantActionPolicy::PredictSequence(const TensorMap& /*obs*/, NoiseSource& noise) {
  // the same action for every row and step
  return naction_.expand({noise.batch_size(), spec().horizons.horizon, -1});
}

}  // namespace dp_bench::constant_action
