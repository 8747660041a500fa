// ACT, Action Chunking with Transformers (Zhao et al. 2023): a conditional VAE over action
// sequences, trained with the L1 distance. A plan is a function of the observation alone, because
// the latent variable is then zero. Temporal ensembling is not part of the policy, see
// Horizons::temporal_ensemble_coeff.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "act_network.h"
#include "dp_bench/config_keys.h"
#include "dp_bench/error.h"
#include "dp_bench/plugin.h"
#include "dp_bench/policy/policy_base.h"
#include "dp_bench/policy/vision/obs_encoder.h"
#include "dp_bench/policy/vision/vision_pipeline.h"

namespace dp_bench::act {
namespace {

using policy::Camera;
using policy::DropoutMasks;
using torch::Tensor;

// The keys of the tokens for numbers, in the order in which they are joined.
struct NumberKeys {
  std::vector<KeySpec> state;
  std::vector<KeySpec> env_state;
  std::vector<KeySpec> task;  // at most one
};

// Moves the keys with these names from `free` to the result.
std::vector<KeySpec> TakeKeys(const std::vector<std::string>& names, const std::string& where,
                              std::vector<KeySpec>* free) {
  std::vector<KeySpec> taken;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(*free, name, &KeySpec::name);
    if (found == free->end()) {
      throw Error(
          ErrorCode::kConfig,
          fmt::format("{}: shape_meta has no low_dim key '{}', or it is given twice", where, name));
    }
    taken.push_back(*found);
    free->erase(found);
  }
  return taken;
}

NumberKeys ReadNumberKeys(const Config& params, const PolicySpec& spec) {
  using Names = std::vector<std::string>;
  const auto env_state = params.Get<Names>("env_state_keys", {},
                                           "low_dim keys of the state of the env, which has a "
                                           "token of its own that the VAE encoder does not see");
  const auto state = params.GetOptional<Names>(
      "state_keys",
      "low_dim keys of the state of the robot, in this order; none: all but env_state_keys, in "
      "alphabetical order");
  std::vector<KeySpec> free = policy::LowDimKeys(spec);
  NumberKeys keys;
  std::ranges::copy_if(spec.shape_meta.obs, std::back_inserter(keys.task),
                       [](const KeySpec& key) { return key.type == KeyType::kTask; });
  keys.env_state = TakeKeys(env_state, params.Where("env_state_keys"), &free);
  if (!state) {
    keys.state = free;
    return keys;
  }
  keys.state = TakeKeys(*state, params.Where("state_keys"), &free);
  if (free.empty()) return keys;
  throw Error(ErrorCode::kConfig,
              fmt::format("{}: expected all low_dim keys of shape_meta that are not in "
                          "env_state_keys; '{}' is missing",
                          params.Where("state_keys"), free[0].name));
}

std::int64_t SizeOfKeys(const std::vector<KeySpec>& keys, int n_obs_steps) {
  std::int64_t size = 0;
  for (const KeySpec& key : keys) size += key.NumElements() * n_obs_steps;
  return size;
}

void ReadBackbone(const Config& params, policy::ResnetConfig* backbone) {
  const Config settings = params.Sub("obs_encoder", "the network that turns images into features");
  const ConfigKeys keys(settings);
  bool has_group_norm = false;
  keys("use_group_norm", &has_group_norm,
       "group norm, for a backbone that is trained from nothing; false: frozen batch norm, as ACT");
  if (has_group_norm) backbone->norm = policy::NormKind::kGroup;
  keys("resnet_width", &backbone->width, 8, 256,
       "channels of the first stage; each stage doubles them");
  keys("resnet_stages", &backbone->n_stages, 1, 4, "stages of two blocks; 4 make a ResNet-18");
}

void ReadNetwork(const Config& params, ActConfig* c) {
  const ConfigKeys keys(params);
  keys("dim_model", &c->dim_model, 4, 16384, "features of a token; a multiple of 4 and of n_heads");
  keys("n_heads", &c->n_heads, 1, 256, "attention heads");
  keys("dim_feedforward", &c->dim_feedforward, 1, 65536, "units of the feed-forward networks");
  keys.Choice("feedforward_activation", &c->has_relu, {{"relu", true}, {"gelu", false}},
              "of the feed-forward networks");
  keys("pre_norm", &c->pre_norm, "layer norm before each block; false: after it");
  keys("n_encoder_layers", &c->n_encoder_layers, 1, 128, "layers over the observation");
  keys("n_decoder_layers", &c->n_decoder_layers, 1, 128, "layers over the actions");
  keys("use_vae", &c->use_vae,
       "learn a latent variable that says which of several possible sequences the demonstration "
       "is");
  keys("n_vae_encoder_layers", &c->n_vae_encoder_layers, 1, 128,
       "layers over the demonstrated actions");
  keys("latent_dim", &c->latent_dim, 1, 4096, "numbers of the latent variable");
  keys("dropout", &c->dropout, 0.0, 0.95, "dropout of everything within the layers");
  if (c->dim_model % 4 == 0 && c->dim_model % c->n_heads == 0) return;
  throw Error(ErrorCode::kConfig,
              fmt::format("{} is {}; it must be a multiple of 4 and of n_heads = {}",
                          params.Where("dim_model"), c->dim_model, c->n_heads));
}

class ActPolicy final : public policy::PolicyBase {
 public:
  ActPolicy(const Config& params, const PolicySpec& spec)
      : PolicyBase("act", spec),
        number_keys_(ReadNumberKeys(params, spec)),
        cameras_(policy::FindCameras(params, spec)),
        pipeline_(params, cameras_) {
    const int n_obs_steps = spec.horizons.n_obs_steps;
    config_ = {.state_dim = SizeOfKeys(number_keys_.state, n_obs_steps),
               .env_state_dim = SizeOfKeys(number_keys_.env_state, n_obs_steps),
               .task_dim = SizeOfKeys(number_keys_.task, 1),
               .has_cameras = !cameras_.empty(),
               .action_dim = action_dim(),
               .horizon = spec.horizons.horizon};
    if (config_.has_cameras) config_.backbone.in_channels = cameras_[0].rgb.shape[0];
    ReadBackbone(params, &config_.backbone);
    ReadNetwork(params, &config_);
    kl_weight_ = params.GetInRange("kl_weight", kl_weight_, 0.0, 1e6,
                                   "weight of the KL divergence of the latent in the loss");
    network_ = module().register_module("model", ActNetwork(config_));
  }

 private:
  // The mean absolute error of the steps within the episode, and kl_weight times the divergence of
  // the latent from N(0, 1). Without training mode it is the error of plans, whose latent is zero.
  LossOutput BatchLoss(const Batch& batch, NoiseSource& noise) override {
    const bool is_training = module().is_training();
    std::optional<DropoutMasks> masks;
    if (is_training && config_.dropout > 0.0) masks.emplace(noise);
    DropoutMasks* const dropout = masks ? &*masks : nullptr;
    const ActObs obs = Encode(batch.obs, is_training ? &noise : nullptr);
    const Tensor naction = normalizer().Normalize("action", batch.action);

    Tensor latent = ZeroLatent(naction);
    LatentDistribution encoded;
    if (config_.use_vae && is_training) {
      encoded = network_->EncodeActions(obs.state, naction, batch.is_pad, dropout);
      const Tensor drawn = noise.Randn(StreamId::kTrainingNoise, latent.sizes());
      latent = encoded.mean + torch::exp(encoded.log_var / 2.0) * drawn.to(latent.options());
    }
    const Tensor errors = torch::abs(network_(obs, latent, dropout) - naction);
    const Tensor is_valid = batch.is_pad.logical_not().unsqueeze(-1);
    const Tensor l1_loss = (errors * is_valid).sum() / (is_valid.sum() * action_dim()).clamp_min(1);
    LossOutput output = {.loss = l1_loss, .parts = {{"l1_loss", l1_loss.detach()}}};
    if (!encoded.mean.defined()) return output;
    const Tensor kld_loss =
        -0.5 *
        (1.0 + encoded.log_var - encoded.mean.square() - encoded.log_var.exp()).sum(-1).mean();
    output.loss = l1_loss + kl_weight_ * kld_loss;
    output.parts["kld_loss"] = kld_loss.detach();
    return output;
  }

  Tensor PredictSequence(const TensorMap& obs, NoiseSource& /*noise*/) override {
    const ActObs encoded = Encode(obs, /*augment=*/nullptr);
    return network_(encoded, ZeroLatent(obs.begin()->second), /*dropout=*/nullptr);
  }

  // As many rows as `rows`.
  Tensor ZeroLatent(const Tensor& rows) const {
    return torch::zeros({rows.size(0), config_.latent_dim}, rows.options().dtype(torch::kFloat32));
  }

  // With several observation steps, those of a number are joined, and those of a camera are further
  // cameras.
  ActObs Encode(const TensorMap& obs, NoiseSource* augment) const {
    std::vector<Tensor> images;
    for (const Camera& camera : cameras_) {
      images.push_back(pipeline_.Prepare(camera, obs, normalizer(), augment).rgb);
    }
    return {.state = Join(number_keys_.state, obs),
            .env_state = Join(number_keys_.env_state, obs),
            .task = number_keys_.task.empty() ? Tensor() : TaskOf(obs),
            .images = images.empty() ? Tensor() : torch::cat(images, /*dim=*/1)};
  }

  // [B, size of the keys]; undefined without keys.
  Tensor Join(const std::vector<KeySpec>& keys, const TensorMap& obs) const {
    std::vector<Tensor> values;
    for (const KeySpec& key : keys) {
      values.push_back(normalizer().Normalize(key.name, obs.find(key.name)->second).flatten(1));
    }
    return values.empty() ? Tensor() : torch::cat(values, /*dim=*/1);
  }

  // [B, n]: it is the same in all observation steps.
  Tensor TaskOf(const TensorMap& obs) const {
    const std::string& key = number_keys_.task[0].name;
    return normalizer().Normalize(key, obs.find(key)->second).select(1, 0).flatten(1);
  }

  NumberKeys number_keys_;
  std::vector<Camera> cameras_;
  policy::VisionPipeline pipeline_;
  ActConfig config_;
  double kl_weight_ = 10.0;
  ActNetwork network_{nullptr};
};

std::unique_ptr<Policy> Create(const Config& params, const PolicySpec& spec) {
  return std::make_unique<ActPolicy>(params, spec);
}

}  // namespace
}  // namespace dp_bench::act

DPB_EXPORT_PLUGIN(dp_bench::Policy, "act", "1.0.0", &dp_bench::act::Create)
