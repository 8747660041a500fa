// Guarded policy: each method forwards through GuardCall, removes the backtrace from LibTorch's
// errors, and checks what comes back against policy.h.
#include "policy/guarded_policy.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/errors.h"
#include "core/machine.h"
#include "policy/device.h"

namespace dp_bench::plugin {
namespace {

template <class Call>
decltype(auto) GuardTorchCall(const PluginPlace& place, const char* during, Call&& call) {
  return GuardCall(place, during, [&]() -> decltype(auto) {
    try {
      return call();
    } catch (const c10::Error& error) {
      if (policy::IsOutOfMemory(error)) throw core::OutOfMemory(error.what_without_backtrace());
      throw std::runtime_error(error.what_without_backtrace());
    }
  });
}

std::string DescribeTensor(const torch::Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  return fmt::format("{} {}", ToString(tensor.sizes()), c10::toString(tensor.scalar_type()));
}

void RequireSameSpec(const PolicySpec& found, const PolicySpec& given) {
  if (found.shape_meta == given.shape_meta && found.horizons == given.horizons) return;
  throw PluginError(
      "spec(): expected the shape_meta and horizons that the policy was created for, found others. "
      "Keep the spec that the constructor gets.");
}

void RequireLoss(const LossOutput& output, torch::nn::Module& module) {
  const torch::Tensor& loss = output.loss;
  if (!loss.defined() || loss.dim() != 0 || !loss.is_floating_point()) {
    throw PluginError("loss: expected a scalar, [] Float, found {}. Take the mean over the batch.",
                      DescribeTensor(loss));
  }
  const auto is_trained = [](const torch::Tensor& parameter) { return parameter.requires_grad(); };
  if (!loss.requires_grad() && torch::GradMode::is_enabled() &&
      std::ranges::any_of(module.parameters(), is_trained)) {
    throw PluginError(
        "loss: expected a scalar with gradient, found one without. Compute it without NoGradGuard, "
        "detach() and item(), from parameters that module() registers.");
  }
  for (const auto& [name, value] : output.parts) {
    if (value.defined() && value.numel() == 1) continue;
    throw PluginError("part '{}' of the loss: expected a scalar, found {}", name,
                      DescribeTensor(value));
  }
}

void RequireChunk(const torch::Tensor& chunk, const PolicySpec& spec, std::int64_t n_rows) {
  const std::vector<std::int64_t> wanted = {n_rows, spec.horizons.n_action_steps,
                                            spec.shape_meta.action_dim()};
  if (chunk.defined() && chunk.sizes() == wanted && chunk.scalar_type() == torch::kFloat32) return;
  const bool is_whole_sequence =
      chunk.defined() && chunk.dim() == 3 && chunk.size(1) == spec.horizons.horizon;
  throw ShapeError(
      "expected actions [B, Ta, Da] = {} Float, found {}. {}", ToString(wanted),
      DescribeTensor(chunk),
      is_whole_sequence
          ? fmt::format("These are all T predicted steps: return the Ta steps from the current one "
                        "on, narrow(1, n_obs_steps - 1 = {}, {}).",
                        spec.horizons.n_obs_steps - 1, spec.horizons.n_action_steps)
          : "Return one chunk of n_action_steps actions for each row of the observations.");
}

class GuardedPolicy final : public Policy {
 public:
  GuardedPolicy(std::unique_ptr<Policy> policy, PluginPlace place, const PolicySpec& spec)
      : place_(std::move(place)), policy_(std::move(policy)), spec_(spec) {
    GuardTorchCall(place_, "spec", [&] { RequireSameSpec(policy_->spec(), spec_); });
    GuardTorchCall(place_, "module", [&] {
      if (!policy_->is_trainable() || !policy_->module().parameters().empty()) return;
      throw PluginError(
          "module(): expected at least one parameter to train, found none. Register the networks "
          "with register_module and single tensors with register_parameter.");
    });
  }

  const PolicySpec& spec() const override { return spec_; }
  void SetNormalizer(const Normalizer& normalizer) override {
    GuardTorchCall(place_, "SetNormalizer", [&] { policy_->SetNormalizer(normalizer); });
  }
  LossOutput ComputeLoss(const Batch& batch, NoiseSource& noise) override {
    return GuardTorchCall(place_, "ComputeLoss", [&] {
      LossOutput output = policy_->ComputeLoss(batch, noise);
      RequireLoss(output, policy_->module());
      return output;
    });
  }
  torch::Tensor PredictAction(const TensorMap& obs, NoiseSource& noise) override {
    return GuardTorchCall(place_, "PredictAction", [&] {
      torch::Tensor chunk = policy_->PredictAction(obs, noise);
      RequireChunk(chunk, spec_, noise.batch_size());
      return chunk;
    });
  }
  torch::Tensor ContinueAction(const TensorMap& obs, const ChunkPrefix& prefix,
                               NoiseSource& noise) override {
    return GuardTorchCall(place_, "ContinueAction", [&] {
      torch::Tensor chunk = policy_->ContinueAction(obs, prefix, noise);
      RequireChunk(chunk, spec_, noise.batch_size());
      return chunk;
    });
  }
  bool can_continue_chunks() const override { return policy_->can_continue_chunks(); }
  int max_prefix() const override { return policy_->max_prefix(); }
  torch::nn::Module& module() override {
    return GuardTorchCall(place_, "module",
                          [&]() -> torch::nn::Module& { return policy_->module(); });
  }
  void SetWeightFormat(WeightFormat format) override {
    GuardTorchCall(place_, "SetWeightFormat", [&] { policy_->SetWeightFormat(format); });
  }
  void WeightsChanged() override {
    GuardTorchCall(place_, "WeightsChanged", [&] { policy_->WeightsChanged(); });
  }
  int n_train_obs_steps() const override {
    return GuardTorchCall(place_, "n_train_obs_steps", [&] {
      const int n_steps = policy_->n_train_obs_steps();
      const Horizons& horizons = spec_.horizons;
      if (n_steps >= horizons.n_obs_steps && n_steps <= horizons.horizon) return n_steps;
      throw PluginError("n_train_obs_steps(): expected n_obs_steps = {} to horizon = {}, found {}",
                        horizons.n_obs_steps, horizons.horizon, n_steps);
    });
  }
  void LearnFrom(Policy& teacher, Policy& average) override {
    GuardTorchCall(place_, "LearnFrom", [&] { policy_->LearnFrom(teacher, average); });
  }

  bool is_trainable() const override { return policy_->is_trainable(); }
  std::vector<std::string> RowFaults() const override {
    return GuardTorchCall(place_, "RowFaults", [&] { return policy_->RowFaults(); });
  }
  std::string Provenance() const override {
    return GuardTorchCall(place_, "Provenance", [&] { return policy_->Provenance(); });
  }

  void ComputeGradients(const torch::Tensor& loss) const {
    GuardTorchCall(place_, "the backward pass of its loss", [&] { loss.backward(); });
  }

  Policy& inside() const { return *policy_; }

 private:
  PluginPlace place_;
  std::unique_ptr<Policy> policy_;
  PolicySpec spec_;
};

}  // namespace

std::unique_ptr<Policy> GuardPlugin(std::unique_ptr<Policy> policy, PluginPlace place,
                                    const PolicySpec& spec) {
  return std::make_unique<GuardedPolicy>(std::move(policy), std::move(place), spec);
}

Policy& Unguarded(Policy& policy) {
  const auto* const guarded = dynamic_cast<const GuardedPolicy*>(&policy);
  return guarded == nullptr ? policy : guarded->inside();
}

void ComputeGradients(const Policy& policy, const torch::Tensor& loss) {
  const auto* const guarded = dynamic_cast<const GuardedPolicy*>(&policy);
  if (guarded == nullptr) return loss.backward();
  guarded->ComputeGradients(loss);
}

}  // namespace dp_bench::plugin
