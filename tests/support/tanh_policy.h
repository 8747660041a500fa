// A diffusion policy of SmallSpec whose network is a formula: tanh(0.8 x + 0.01 t + 0.5
// mean(condition)), as in the generators of tests/golden.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dp_bench/policy/networks/diffusion_policy.h"
#include "support/small_policy.h"

namespace dp_bench::policy {

class StateEncoder : public ObsEncoder {
 public:
  explicit StateEncoder(torch::nn::Module& module) {
    module.register_parameter("gain", torch::ones({1}));
  }
  std::int64_t feature_dim() const override { return 2; }
  torch::Tensor Encode(const TensorMap& obs, const Normalizer&, NoiseSource*) override {
    return obs.find("agent_pos")->second;
  }
  void set_gradient_checkpointing(bool) override {}
};

// The network of the reference. Keeps the sequences and times that it got.
class TanhDenoiser : public Denoiser {
 public:
  torch::Tensor Forward(const torch::Tensor& noisy, const torch::Tensor& times,
                        const torch::Tensor& cond, NoiseSource*) override {
    seen.push_back(noisy);
    const torch::Tensor shift =
        cond.numel() == 0 ? torch::zeros({1}) : 0.5 * cond.mean(c10::IntArrayRef{1, 2});
    return torch::tanh(0.8 * noisy + (0.01 * times.to(torch::kFloat32) + shift).view({-1, 1, 1}));
  }
  ConditionedDenoiser Condition(const std::vector<double>& times,
                                const torch::Tensor& cond) override {
    conditioned_times = times;
    return [this, times, cond](const torch::Tensor& sequence, std::int64_t i) {
      const double time = times.at(static_cast<std::size_t>(i));
      return Forward(sequence, torch::full({sequence.size(0)}, time, torch::kFloat32), cond, {});
    };
  }
  void DropCaches() override {}
  void set_gradient_checkpointing(bool) override {}

  std::vector<torch::Tensor> seen;
  std::vector<double> conditioned_times;
};

inline std::unique_ptr<DiffusionPolicy> MakeTanhPolicy(const std::string& params) {
  DiffusionPolicy::Model model;
  model.obs_encoder = std::make_unique<StateEncoder>(*model.module);
  model.denoiser = std::make_unique<TanhDenoiser>();
  const Config config = Config::FromJson(params, "policy.json");
  model.channels = DenoiserChannels::FromConfig(config, SmallSpec(), 2);
  auto policy = std::make_unique<DiffusionPolicy>("test", config, SmallSpec(), std::move(model));
  config.RejectUnread();
  policy->SetNormalizer(SmallNormalizer());
  return policy;
}

inline TanhDenoiser& DenoiserOf(DiffusionPolicy& policy) {
  return dynamic_cast<TanhDenoiser&>(policy.denoiser());
}

}  // namespace dp_bench::policy
