// A linear map from low-dimensional observations to an action sequence, with one mistake that
// authors of policies make: the param `mistake` names it. Without one ("none"), the policy keeps
// the contract. tests/conformance/mistakes.py lists what dp_bench says about each.
#include <torch/nn/modules/linear.h>

#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dp_bench/error.h"
#include "dp_bench/plugin.h"
#include "dp_bench/policy.h"
#include "dp_bench/policy/kernels/row_product.h"
#include "policy/obs_check.h"

namespace dp_bench::broken {
namespace {

using torch::Tensor;

class MistakenPolicy final : public Policy {
 public:
  static std::unique_ptr<Policy> Create(const Config& params, const PolicySpec& spec) {
    return std::make_unique<MistakenPolicy>(params, spec);
  }

  MistakenPolicy(const Config& params, const PolicySpec& spec)
      : mistake_(params.Get<std::string>("mistake", "none", "what is wrong with this policy")),
        spec_(spec) {
    if (Is("throw_in_create")) throw std::runtime_error("no pretrained weights");
    std::int64_t n_features = 0;
    for (const KeySpec& key : spec.shape_meta.obs) {
      n_features += key.NumElements() * spec.horizons.n_obs_steps;
    }
    const std::int64_t n_outputs = spec.horizons.horizon * spec.shape_meta.action_dim();
    out_ = torch::nn::Linear(n_features, n_outputs);
    if (!Is("nothing_registered")) module_->register_module("out", out_);
    free_ = torch::nn::Linear(n_outputs, n_outputs);
    if (Is("unused_parameter")) module_->register_module("free", free_);
    if (Is("other_spec")) spec_.horizons.n_action_steps = 4;
  }

  const PolicySpec& spec() const override { return spec_; }
  torch::nn::Module& module() override { return *module_; }
  void WeightsChanged() override {
    if (!Is("stale_cache")) {
      cached_.reset();
      cached_bias_.reset();
    }
  }
  int n_train_obs_steps() const override {
    return Is("too_many_obs_steps") ? spec_.horizons.horizon + 1 : spec_.horizons.n_obs_steps;
  }

  void SetNormalizer(const Normalizer& normalizer) override {
    for (const KeySpec& key : spec_.shape_meta.obs) RequireField(normalizer, key.name);
    if (!Is("unchecked_statistics")) RequireField(normalizer, "action");
    normalizer_ = normalizer;
    normalizer_->To(out_->weight.device());
  }

  LossOutput ComputeLoss(const Batch& batch, NoiseSource& noise) override {
    if (Is("throw_in_loss")) throw std::out_of_range("step 17");
    if (Is("hang_in_loss")) {
      while (true) std::this_thread::sleep_for(std::chrono::hours(1));
    }
    if (!Is("unchecked_normalizer")) RequireNormalizer();
    if (!Is("unchecked_shapes")) {
      policy::CheckBatch(batch, spec_, spec_.horizons.n_obs_steps, noise);
    }
    const Tensor target = normalizer_->Normalize("action", batch.action);  // [B, T, Da]
    Tensor prediction = Predict(batch.obs, out_->weight, out_->bias);
    if (Is("wrong_product")) prediction = torch::mm(prediction.flatten(1), torch::ones({3, 3}));
    if (Is("changed_in_place")) {
      const Tensor squared = prediction.square();
      prediction.add_(1.0);
      prediction = squared;
    }
    LossOutput output = {.loss = torch::mse_loss(prediction, target), .parts = {}};
    if (Is("loss_per_row")) output.loss = (prediction - target).square().mean({1, 2});
    if (Is("loss_without_gradient")) output.loss = output.loss.detach();
    if (Is("no_loss")) output.loss = Tensor();
    if (Is("nan_loss")) output.loss = output.loss * std::numeric_limits<double>::quiet_NaN();
    if (Is("part_per_row")) output.parts["rows"] = prediction.detach().mean({1, 2});
    if (Is("undefined_part")) output.parts["rows"] = Tensor();
    if (Is("wrong_noise_rows")) noise.Randn(StreamId::kTrainingNoise, {1, 4});
    if (Is("loss_of_global_noise")) output.loss = output.loss * torch::rand({});
    if (Is("learns_nothing")) output.loss = output.loss * 0.0 + 1.0;
    return output;
  }

  Tensor PredictAction(const TensorMap& obs, NoiseSource& /*noise*/) override {
    std::optional<torch::NoGradGuard> no_grad;
    if (!Is("keeps_gradient")) no_grad.emplace();
    if (!Is("unchecked_normalizer")) RequireNormalizer();
    if (!Is("unchecked_shapes")) policy::CheckObs(obs, spec_, spec_.horizons.n_obs_steps);
    if (!cached_.defined()) cached_ = out_->weight.detach().clone();
    if (!cached_bias_.defined()) cached_bias_ = out_->bias.detach().clone();
    Tensor sequence = Is("stale_cache") ? Predict(obs, cached_, cached_bias_)
                                        : Predict(obs, out_->weight, out_->bias);
    if (Is("global_noise")) sequence = sequence + torch::randn_like(sequence);
    if (Is("mean_of_batch")) sequence = sequence + sequence.mean(0, /*keepdim=*/true);
    if (Is("noise_by_place"))
      sequence = sequence + torch::arange(sequence.size(0)).view({-1, 1, 1});
    if (!Is("normalized_actions")) sequence = normalizer_->Unnormalize("action", sequence);
    if (Is("whole_sequence")) return sequence;
    const std::int64_t begin = Is("chunk_from_zero")     ? 0
                               : Is("chunk_a_step_late") ? spec_.horizons.n_obs_steps
                                                         : spec_.horizons.n_obs_steps - 1;
    Tensor chunk = sequence.narrow(1, begin, spec_.horizons.n_action_steps).contiguous();
    if (Is("double_actions")) chunk = chunk.to(torch::kFloat64);
    if (Is("flat_actions")) chunk = chunk.flatten(1);
    if (Is("one_row")) chunk = chunk.narrow(0, 0, 1);
    if (Is("no_actions")) chunk = Tensor();
    if (Is("nan_actions")) chunk = chunk * std::numeric_limits<float>::quiet_NaN();
    return chunk;
  }

 private:
  bool Is(std::string_view mistake) const { return mistake_ == mistake; }

  // Normalized actions [B, T, Da].
  Tensor Predict(const TensorMap& obs, const Tensor& weight, const Tensor& bias) {
    std::vector<Tensor> features;
    if (Is("own_names")) {
      for (const char* name : {"agent_pos", "keypoint"}) {
        features.push_back(normalizer_->Normalize(name, obs.at(name)).flatten(1));
      }
    }
    for (const KeySpec& key : spec_.shape_meta.obs) {
      if (Is("own_names")) break;
      features.push_back(normalizer_->Normalize(key.name, obs.at(key.name)).flatten(1));
    }
    const Tensor x = torch::cat(features, 1);
    const Tensor y = policy::RowProduct(x, weight) + bias;
    return y.view({x.size(0), spec_.horizons.horizon, -1});
  }

  static void RequireField(const Normalizer& normalizer, const std::string& key) {
    if (normalizer.fields().contains(key)) return;
    throw Error(ErrorCode::kData, "the normalizer has no statistics for '" + key + "'");
  }
  void RequireNormalizer() const {
    if (!normalizer_) throw Error(ErrorCode::kData, "expected a call of SetNormalizer first");
  }

  std::string mistake_;
  PolicySpec spec_;
  std::optional<Normalizer> normalizer_;
  std::shared_ptr<torch::nn::Module> module_ = std::make_shared<torch::nn::Module>("mistaken");
  torch::nn::Linear out_{nullptr};
  torch::nn::Linear free_{nullptr};
  Tensor cached_;
  Tensor cached_bias_;
};

}  // namespace
}  // namespace dp_bench::broken

DPB_EXPORT_PLUGIN(dp_bench::Policy, "mistaken", "0.1.0", &dp_bench::broken::MistakenPolicy::Create)
