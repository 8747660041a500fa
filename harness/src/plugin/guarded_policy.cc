// Guarded policy: each method forwards through GuardCall and removes the backtrace from LibTorch's
// errors.
#include "plugin/guarded_policy.h"

#include <c10/util/Exception.h>

#include <stdexcept>
#include <utility>

#include "core/device.h"
#include "core/memory.h"

namespace dp_bench::plugin {
namespace {

template <class Call>
decltype(auto) GuardTorchCall(const PluginPlace& place, const char* during, Call&& call) {
  return GuardCall(place, during, [&]() -> decltype(auto) {
    try {
      return call();
    } catch (const c10::Error& error) {
      if (core::IsOutOfMemory(error)) throw core::OutOfMemory(error.what_without_backtrace());
      throw std::runtime_error(error.what_without_backtrace());
    }
  });
}

class GuardedPolicy final : public Policy {
 public:
  GuardedPolicy(std::unique_ptr<Policy> policy, PluginPlace place)
      : place_(std::move(place)), policy_(std::move(policy)) {}

  const PolicySpec& spec() const override {
    return GuardTorchCall(place_, "spec", [&]() -> const PolicySpec& { return policy_->spec(); });
  }
  void SetNormalizer(const Normalizer& normalizer) override {
    GuardTorchCall(place_, "SetNormalizer", [&] { policy_->SetNormalizer(normalizer); });
  }
  LossOutput ComputeLoss(const Batch& batch, NoiseSource& noise) override {
    return GuardTorchCall(place_, "ComputeLoss",
                          [&] { return policy_->ComputeLoss(batch, noise); });
  }
  torch::Tensor PredictAction(const TensorMap& obs, NoiseSource& noise) override {
    return GuardTorchCall(place_, "PredictAction",
                          [&] { return policy_->PredictAction(obs, noise); });
  }
  torch::nn::Module& module() override {
    return GuardTorchCall(place_, "module",
                          [&]() -> torch::nn::Module& { return policy_->module(); });
  }
  void WeightsChanged() override {
    GuardTorchCall(place_, "WeightsChanged", [&] { policy_->WeightsChanged(); });
  }
  int n_train_obs_steps() const override {
    return GuardTorchCall(place_, "n_train_obs_steps",
                          [&] { return policy_->n_train_obs_steps(); });
  }
  Distillable* distillable() override {
    return GuardTorchCall(place_, "distillable", [&] { return policy_->distillable(); });
  }

 private:
  PluginPlace place_;
  std::unique_ptr<Policy> policy_;
};

}  // namespace

std::unique_ptr<Policy> GuardPlugin(std::unique_ptr<Policy> policy, PluginPlace place) {
  return std::make_unique<GuardedPolicy>(std::move(policy), std::move(place));
}

}  // namespace dp_bench::plugin
