// See policy_base.h.
#include "dp_bench/policy/policy_base.h"

#include <ATen/core/grad_mode.h>

#include <utility>
#include <vector>

#include "core/errors.h"
#include "policy/kernels/product_cache.h"
#include "policy/obs_check.h"

namespace dp_bench {

Policy::~Policy() = default;  // the home of its vtable

void Policy::LearnFrom(Policy& /*teacher*/, Policy& /*average*/) {
  throw ConfigError(
      "training.teacher: expected policies that can learn from one another, found a plugin without "
      "this ability");
}

void Policy::SetWeightFormat(WeightFormat format) {
  if (format == WeightFormat::kFloat32) return;
  throw ConfigError(
      "policy.weights: expected float32 for this plugin, which knows no other weights, found {}",
      format == WeightFormat::kBf16 ? "bf16" : "int8");
}

torch::Tensor Policy::ContinueAction(const TensorMap& /*obs*/, const ChunkPrefix& /*prefix*/,
                                     NoiseSource& /*noise*/) {
  throw ConfigError(
      "expected a policy whose plans can be guided, found a plugin without this ability; set "
      "env_runner.chunking.method to naive or bid");
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
    : name_(std::move(name)),
      spec_(spec),
      module_(std::make_shared<torch::nn::Module>(name_)),
      products_(std::make_unique<ProductCache>(ProductType::kFloat32)) {}

PolicyBase::~PolicyBase() = default;

void PolicyBase::SetNormalizer(const Normalizer& normalizer) {
  RequireField(normalizer, "action");
  for (const KeySpec& key : spec_.shape_meta.obs) RequireField(normalizer, key.name);
  const torch::Device device = module_->parameters().front().device();
  if (!device.is_cpu() && products_->type() != ProductType::kFloat32) {
    throw ConfigError("policy.weights: expected float32 on {}; bf16 and int8 are for the CPU",
                      device.str());
  }
  normalizer_ = normalizer;
  normalizer_->To(device);
}

LossOutput PolicyBase::ComputeLoss(const Batch& batch, NoiseSource& noise) {
  normalizer();
  CheckBatch(batch, spec_, n_train_obs_steps(), noise);
  return BatchLoss(batch, noise);
}

torch::Tensor PolicyBase::PredictAction(const TensorMap& obs, NoiseSource& noise) {
  const torch::NoGradGuard no_grad;
  const EvaluationMode evaluation(*module_);
  const ProductScope products(products_.get());
  normalizer();
  const std::int64_t n_rows = CheckObs(obs, spec_, spec_.horizons.n_obs_steps);
  return ChunkOf(PredictSequence(obs, noise), n_rows);
}

torch::Tensor PolicyBase::ContinueAction(const TensorMap& obs, const ChunkPrefix& prefix,
                                         NoiseSource& noise) {
  const torch::NoGradGuard no_grad;
  const EvaluationMode evaluation(*module_);
  const ProductScope products(products_.get());
  const std::int64_t n_rows = CheckObs(obs, spec_, spec_.horizons.n_obs_steps);
  const std::vector<std::int64_t> wanted = {n_rows, spec_.horizons.n_action_steps, action_dim()};
  if (prefix.actions.sizes() != wanted ||
      prefix.weights.sizes() != prefix.actions.sizes().slice(0, 2)) {
    throw ShapeError(
        "the actions in execution: expected {}, and weights without the last, found {} and {}",
        ToString(wanted), ToString(prefix.actions.sizes()), ToString(prefix.weights.sizes()));
  }
  // from the steps of the chunk to those of the sequence
  const std::int64_t before = spec_.horizons.n_obs_steps - 1;
  const std::int64_t behind = spec_.horizons.horizon - before - spec_.horizons.n_action_steps;
  ChunkPrefix of_sequence = prefix;
  of_sequence.actions = torch::constant_pad_nd(normalizer().Normalize("action", prefix.actions),
                                               {0, 0, before, behind});
  of_sequence.weights = torch::constant_pad_nd(prefix.weights, {before, behind});
  return ChunkOf(ContinueSequence(obs, of_sequence, noise), n_rows);
}

void PolicyBase::SetWeightFormat(WeightFormat format) {
  switch (format) {
    case WeightFormat::kFloat32:
      return products_->SetType(ProductType::kFloat32);
    case WeightFormat::kBf16:
      return products_->SetType(ProductType::kBf16);
    case WeightFormat::kInt8:
      return products_->SetType(ProductType::kInt8);
  }
}

void PolicyBase::WeightsChanged() { products_->Clear(); }

torch::Tensor PolicyBase::ContinueSequence(const TensorMap& /*obs*/, const ChunkPrefix& /*prefix*/,
                                           NoiseSource& /*noise*/) {
  throw ConfigError(
      "{} cannot guide its plans towards the actions in execution; set env_runner.chunking.method "
      "to naive or bid",
      name_);
}

// The executed steps of a predicted sequence, in raw units.
torch::Tensor PolicyBase::ChunkOf(const torch::Tensor& sequence, std::int64_t n_rows) const {
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
