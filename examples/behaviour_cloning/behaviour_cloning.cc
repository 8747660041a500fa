// Behaviour cloning: one pass of a network maps the observations to the action chunk, trained with
// the squared error. Images go through the encoder of Diffusion Policy (ResNet, spatial softmax);
// its features and the low-dimensional observations go through an MLP.
#include <torch/nn/modules/linear.h>

#include <memory>
#include <string>
#include <vector>

#include "dp_bench/plugin.h"
#include "dp_bench/policy.h"
#include "dp_bench/policy/kernels/row_product.h"
#include "dp_bench/policy/policy_base.h"
#include "dp_bench/policy/vision/obs_encoder.h"

namespace {

using dp_bench::NoiseSource;
using dp_bench::TensorMap;
using dp_bench::policy::ApplyLinear;
using torch::Tensor;

class BehaviourCloning final : public dp_bench::policy::PolicyBase {
 public:
  // The encoder refuses depth images, and says what to use instead.
  BehaviourCloning(const dp_bench::Config& params, const dp_bench::PolicySpec& spec)
      : PolicyBase("behaviour_cloning", spec),
        encoder_(dp_bench::policy::MakeHybridObsEncoder(params, spec, module())) {
    const std::int64_t width =
        params.GetInRange("width", std::int64_t{256}, 1, 65536, "units of each hidden layer");
    const std::int64_t n_layers =
        params.GetInRange("n_layers", std::int64_t{3}, 1, 100, "hidden layers");
    std::int64_t n_inputs = encoder_->feature_dim() * spec.horizons.n_obs_steps;
    for (std::int64_t i = 0; i < n_layers; ++i) {
      hidden_.push_back(module().register_module("hidden_" + std::to_string(i),
                                                 torch::nn::Linear(n_inputs, width)));
      n_inputs = width;
    }
    out_ = module().register_module("out",
                                    torch::nn::Linear(width, spec.horizons.horizon * action_dim()));
  }

 private:
  // Steps after the end of an episode repeat its last action. They count too, so the policy learns
  // to stay there.
  dp_bench::LossOutput BatchLoss(const dp_bench::Batch& batch, NoiseSource& noise) override {
    const Tensor target = normalizer().Normalize("action", batch.action);  // [B, T, Da]
    return {.loss = torch::mse_loss(Forward(batch.obs, &noise), target), .parts = {}};
  }

  Tensor PredictSequence(const TensorMap& obs, NoiseSource& /*noise*/) override {
    return Forward(obs, nullptr);
  }

  // Normalized actions [B, T, Da]. `augment`: draws the random crops of a training, null without.
  Tensor Forward(const TensorMap& obs, NoiseSource* augment) {
    Tensor x = encoder_->Encode(obs, normalizer(), augment).flatten(1);  // [B, To * Do]
    // ApplyLinear gives a row the same bits in every batch
    for (const torch::nn::Linear& layer : hidden_) x = torch::relu(ApplyLinear(layer, x));
    return ApplyLinear(out_, x).view({x.size(0), spec().horizons.horizon, action_dim()});
  }

  std::unique_ptr<dp_bench::policy::ObsEncoder> encoder_;
  std::vector<torch::nn::Linear> hidden_;
  torch::nn::Linear out_{nullptr};
};

}  // namespace

DPB_EXPORT_PLUGIN(dp_bench::Policy, "behaviour_cloning", "0.1.0",
                  &dp_bench::CreateInstance<dp_bench::Policy, BehaviourCloning, dp_bench::Config,
                                            dp_bench::PolicySpec>)
