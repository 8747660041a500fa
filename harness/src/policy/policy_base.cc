// See policy_base.h.
#include "dp_bench/policy/policy_base.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "core/errors.h"
#include "policy/obs_check.h"

namespace dp_bench {

Policy::~Policy() = default;  // the home of its vtable

void Policy::LearnFrom(Policy& /*teacher*/, Policy& /*average*/) {
  throw ConfigError(
      "training.teacher: expected policies that can learn from one another, found a plugin without "
      "this ability");
}

namespace policy {
namespace {

// Freezes batch statistics while it exists.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module)
      : module_(module), was_training_(module.is_training()) {
    if (was_training_) module_.eval();
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;
  ~EvaluationMode() {
    if (was_training_) module_.train();
  }

 private:
  torch::nn::Module& module_;
  bool was_training_;
};

void RequireField(const Normalizer& normalizer, const std::string& key) {
  if (normalizer.fields().contains(key)) return;
  throw DataError("the normalizer has no statistics for '{}' of shape_meta", key);
}

}  // namespace

PolicyBase::PolicyBase(std::string name, const PolicySpec& spec)
    : name_(std::move(name)), spec_(spec), module_(std::make_shared<torch::nn::Module>(name_)) {}

void PolicyBase::SetNormalizer(const Normalizer& normalizer) {
  RequireField(normalizer, "action");
  for (const KeySpec& key : spec_.shape_meta.obs) RequireField(normalizer, key.name);
  normalizer_ = normalizer;
  normalizer_->To(module_->parameters().front().device());
}

LossOutput PolicyBase::ComputeLoss(const Batch& batch, NoiseSource& noise) {
  normalizer();
  CheckBatch(batch, spec_, n_train_obs_steps(), noise);
  return BatchLoss(batch, noise);
}

torch::Tensor PolicyBase::PredictAction(const TensorMap& obs, NoiseSource& noise) {
  const torch::NoGradGuard no_grad;
  const EvaluationMode evaluation(*module_);
  normalizer();
  const std::int64_t n_rows = CheckObs(obs, spec_, spec_.horizons.n_obs_steps);
  const torch::Tensor sequence = PredictSequence(obs, noise);
  const std::vector<std::int64_t> wanted = {n_rows, spec_.horizons.horizon, action_dim()};
  if (!sequence.defined() || sequence.sizes() != wanted) {
    throw ShapeError("PredictSequence: expected normalized actions [B, T, Da] = {}, found {}",
                     ToString(wanted), sequence.defined() ? ToString(sequence.sizes()) : "nothing");
  }
  const torch::Tensor action = normalizer().Unnormalize("action", sequence);
  const std::int64_t current = spec_.horizons.n_obs_steps - 1;
  return action.narrow(/*dim=*/1, current, spec_.horizons.n_action_steps).contiguous();
}

const Normalizer& PolicyBase::normalizer() const {
  if (normalizer_.has_value()) return *normalizer_;
  throw DataError("{} has no normalizer; call SetNormalizer before ComputeLoss and PredictAction",
                  name_);
}

}  // namespace policy
}  // namespace dp_bench
