// Diffusion Policy on colour and depth of several cameras: the data flow of the Kuavo data
// challenge's policy. One image encoder per modality serves all cameras, attention fuses their
// features, the state has an encoder of its own; a transformer or a conditional
// UNet1D denoises.
#include <fmt/format.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dp_bench/config_keys.h"
#include "dp_bench/error.h"
#include "dp_bench/plugin.h"
#include "dp_bench/policy/kernels/row_product.h"
#include "dp_bench/policy/kernels/token_ops.h"
#include "dp_bench/policy/networks/diffusion_policy.h"
#include "dp_bench/policy/vision/image_encoder.h"
#include "dp_bench/policy/vision/vision_pipeline.h"
#include "dp_bench/stage_trace.h"

namespace dp_bench::rgbd_fusion {
namespace {

// kSeed: attention only, as in the Kuavo data challenge's policy: a camera's features reach the
// output only through the values of the attentions. kResidual: pre-norm residual attention on
// tokens with camera embeddings, and a final norm.
enum class FusionKind { kSeed, kResidual };

struct FusionConfig {
  FusionKind kind = FusionKind::kSeed;
  std::int64_t n_cameras = 3;
  std::int64_t token_dim = 128;  // d, features of one camera
  std::int64_t n_head = 8;
  bool has_depth = true;
};

using torch::Tensor;

// query, memory [N, tokens, d] -> [N, tokens, d]. `tokens`: "colour to depth", the name under which
// the weights are traced. Training steps, which have gradients, do not trace them.
Tensor Attend(const char* tokens, torch::nn::MultiheadAttention& attention, const Tensor& query,
              const Tensor& memory) {
  const std::int64_t d = query.size(2);
  const std::int64_t n_head = attention->options.num_heads();
  const Tensor& weight = attention->in_proj_weight;
  const policy::AttentionInputs inputs = {
      .q = policy::RowProduct(query, weight.narrow(0, 0, d)),
      .kv = policy::RowProduct(memory, weight.narrow(0, d, 2 * d)),
      .bias = attention->in_proj_bias};
  if (IsTracingStages() && !torch::GradMode::is_enabled()) {
    TraceStage(std::string("attention: fusion, ") + tokens,
               policy::AttentionWeights(inputs, n_head));
  }
  const Tensor heads = policy::Attention(inputs, n_head);
  return policy::RowProduct(heads, attention->out_proj->weight) + attention->out_proj->bias;
}

class CameraFusionImpl : public torch::nn::Module {
 public:
  explicit CameraFusionImpl(const FusionConfig& config)
      : config_(config), rgb_(AddModality("rgb")) {
    if (config_.has_depth) depth_ = AddModality("depth");
  }

  // rgb and depth [N, n_cameras, d] (depth undefined if there is none) -> [N, feature_dim].
  Tensor forward(const Tensor& rgb, const Tensor& depth) {
    const Tensor rgb_tokens = AttendCameras("colour to colour", rgb_, rgb);
    TraceStage("fusion: colour, self-attention", rgb_tokens);
    if (!config_.has_depth) return Leave(rgb_, rgb_tokens);

    const Tensor depth_tokens = AttendCameras("depth to depth", depth_, depth);
    TraceStage("fusion: depth, self-attention", depth_tokens);
    const Tensor rgb_fused = AttendOther("colour to depth", rgb_, rgb_tokens, depth_tokens);
    TraceStage("fusion: colour queries depth", rgb_fused);
    const Tensor depth_fused = AttendOther("depth to colour", depth_, depth_tokens, rgb_tokens);
    TraceStage("fusion: depth queries colour", depth_fused);
    return torch::cat({Leave(rgb_, rgb_fused), Leave(depth_, depth_fused)}, /*dim=*/-1);
  }

  // n_cameras * d, twice that with depth.
  std::int64_t feature_dim() const {
    return config_.n_cameras * config_.token_dim * (config_.has_depth ? 2 : 1);
  }

 private:
  // The modules for the tokens of one modality.
  struct Modality {
    torch::nn::MultiheadAttention self{nullptr};   // over the cameras
    torch::nn::MultiheadAttention cross{nullptr};  // to the other modality; null without depth
    torch::Tensor camera_embedding;  // [n_cameras, d]; only kResidual has this and the norms
    torch::nn::LayerNorm norm_self{nullptr};
    torch::nn::LayerNorm norm_cross{nullptr};
    torch::nn::LayerNorm norm_memory{nullptr};  // for the memory of `cross`
    torch::nn::LayerNorm norm_out{nullptr};
  };

  Modality AddModality(const std::string& name) {
    const auto attention = [&](const std::string& suffix) {
      return register_module(name + suffix,
                             torch::nn::MultiheadAttention(config_.token_dim, config_.n_head));
    };
    Modality modality;
    modality.self = attention("_self_attention");
    if (config_.has_depth) modality.cross = attention("_cross_attention");
    if (config_.kind == FusionKind::kSeed) return modality;

    const auto norm = [&](const std::string& suffix) {
      return register_module(
          name + suffix, torch::nn::LayerNorm(torch::nn::LayerNormOptions({config_.token_dim})));
    };
    constexpr double kEmbeddingStd = 0.02;
    modality.camera_embedding =
        register_parameter(name + "_camera_embedding",
                           torch::randn({config_.n_cameras, config_.token_dim}) * kEmbeddingStd);
    modality.norm_self = norm("_norm_self");
    if (config_.has_depth) {
      modality.norm_cross = norm("_norm_cross");
      modality.norm_memory = norm("_norm_memory");
    }
    modality.norm_out = norm("_norm_out");
    return modality;
  }

  Tensor AttendCameras(const char* name, Modality& modality, const Tensor& tokens) const {
    if (config_.kind == FusionKind::kSeed) return Attend(name, modality.self, tokens, tokens);
    const Tensor named = tokens + modality.camera_embedding;
    const Tensor normed = modality.norm_self(named);
    return named + Attend(name, modality.self, normed, normed);
  }

  Tensor AttendOther(const char* name, Modality& modality, const Tensor& tokens,
                     const Tensor& other) const {
    if (config_.kind == FusionKind::kSeed) return Attend(name, modality.cross, tokens, other);
    return tokens +
           Attend(name, modality.cross, modality.norm_cross(tokens), modality.norm_memory(other));
  }

  // [N, n_cameras, d] -> [N, n_cameras * d].
  Tensor Leave(Modality& modality, const Tensor& tokens) const {
    if (config_.kind == FusionKind::kSeed) return tokens.flatten(1);
    return modality.norm_out(tokens).flatten(1);
  }

  FusionConfig config_;
  Modality rgb_;
  Modality depth_;
};

TORCH_MODULE(CameraFusion);

using policy::Camera;
using policy::ImageEncoder;
using policy::ImageEncoderConfig;

// Whether the cameras have depth. Throws if only some do.
bool HasDepth(const std::vector<Camera>& cameras) {
  const bool has_depth = cameras[0].depth.has_value();
  for (const Camera& camera : cameras) {
    if (camera.depth.has_value() == has_depth) continue;
    throw Error(ErrorCode::kConfig,
                fmt::format("expected depth for all cameras or for none; of '{}' and '{}' only one "
                            "has depth",
                            cameras[0].rgb.name, camera.rgb.name));
  }
  return has_depth;
}

FusionConfig ReadFusion(const Config& settings, std::int64_t n_cameras, std::int64_t token_dim,
                        bool has_depth) {
  FusionConfig config = {.n_cameras = n_cameras, .token_dim = token_dim, .has_depth = has_depth};
  const ConfigKeys keys(settings);
  keys.Choice("fusion", &config.kind,
              {{"seed", FusionKind::kSeed}, {"residual", FusionKind::kResidual}},
              "seed: attentions alone, as in the Kuavo data challenge; residual: pre-norm residual "
              "attentions");
  keys("n_head", &config.n_head, 1, 1024,
       "attention heads of the fusion; must divide 2 * spatial_softmax_num_keypoints");
  if (token_dim % config.n_head != 0) {
    throw Error(ErrorCode::kConfig,
                fmt::format("{} is {}; it must divide the {} features of a camera, 2 * "
                            "spatial_softmax_num_keypoints",
                            settings.Where("n_head"), config.n_head, token_dim));
  }
  return config;
}

class RgbdObsEncoder final : public policy::ObsEncoder {
 public:
  // Reads obs_encoder and the keys of VisionPipeline from `params`; registers `rgb_encoder`,
  // `depth_encoder`, `fusion` and `state_encoder` with `parent`.
  RgbdObsEncoder(const Config& params, const PolicySpec& spec, torch::nn::Module& parent);

  std::int64_t feature_dim() const override { return feature_dim_; }

  // For each observation step, oldest first: colour of all cameras in alphabetical order, depth of
  // all cameras, state.
  Tensor Encode(const TensorMap& obs, const Normalizer& normalizer, NoiseSource* augment) override;

  void set_gradient_checkpointing(bool is_on) override;

 private:
  void AddStateEncoder(const Config& settings, torch::nn::Module& parent);
  void TraceParts(const Tensor& fused) const;
  Tensor EncodeState(const TensorMap& obs, const Normalizer& normalizer);

  std::vector<KeySpec> low_dim_;
  std::vector<Camera> cameras_;
  policy::VisionPipeline pipeline_;
  ImageEncoder rgb_encoder_{nullptr};    // one for all cameras
  ImageEncoder depth_encoder_{nullptr};  // likewise; null without depth
  CameraFusion fusion_{nullptr};
  torch::nn::Linear state_linear1_{nullptr};  // null without low_dim keys
  torch::nn::Linear state_linear2_{nullptr};
  std::int64_t feature_dim_ = 0;
};

RgbdObsEncoder::RgbdObsEncoder(const Config& params, const PolicySpec& spec,
                               torch::nn::Module& parent)
    : cameras_(policy::FindCameras(params, spec)), pipeline_(params, cameras_) {
  if (cameras_.empty()) {
    throw Error(ErrorCode::kConfig,
                "this policy needs a camera: expected an rgb key in shape_meta.obs, found none. "
                "Use a task with images (--env kuavo_dualarm --obs rgbd, --env pusht --obs image), "
                "or a policy for low_dim observations (--policy transformer, --policy "
                "unet_hybrid)");
  }
  for (const KeySpec& key : spec.shape_meta.obs) {
    if (!key.is_image()) low_dim_.push_back(key);
  }
  const bool has_depth = HasDepth(cameras_);
  const Config settings = params.Sub("obs_encoder", "the network that turns images into features");
  ImageEncoderConfig config = policy::ImageEncoderConfig::FromConfig(settings);
  config.height = pipeline_.height();
  config.width = pipeline_.width();
  config.in_channels = cameras_[0].rgb.shape[0];
  rgb_encoder_ = parent.register_module("rgb_encoder", ImageEncoder(config));
  if (has_depth) {
    config.in_channels = 1;
    depth_encoder_ = parent.register_module("depth_encoder", ImageEncoder(config));
  }
  fusion_ = parent.register_module(
      "fusion", CameraFusion(ReadFusion(settings, static_cast<std::int64_t>(cameras_.size()),
                                        config.feature_dim(), has_depth)));
  feature_dim_ = fusion_->feature_dim();
  AddStateEncoder(settings, parent);
}

void RgbdObsEncoder::AddStateEncoder(const Config& settings, torch::nn::Module& parent) {
  const std::int64_t state_dim = settings.GetInRange("state_feature_dim", std::int64_t{128}, 1,
                                                     65536, "features of the low_dim observations");
  if (low_dim_.empty()) return;
  std::int64_t n_values = 0;
  for (const KeySpec& key : low_dim_) n_values += key.NumElements();
  const auto encoder =
      parent.register_module("state_encoder", std::make_shared<torch::nn::Module>());
  state_linear1_ = encoder->register_module("0", torch::nn::Linear(n_values, state_dim));
  state_linear2_ = encoder->register_module("2", torch::nn::Linear(state_dim, state_dim));
  feature_dim_ += state_dim;
}

void RgbdObsEncoder::set_gradient_checkpointing(bool is_on) {
  rgb_encoder_->set_gradient_checkpointing(is_on);
  if (!depth_encoder_.is_empty()) depth_encoder_->set_gradient_checkpointing(is_on);
}

Tensor RgbdObsEncoder::Encode(const TensorMap& obs, const Normalizer& normalizer,
                              NoiseSource* augment) {
  std::vector<Tensor> rgb;
  std::vector<Tensor> depth;
  for (const Camera& camera : cameras_) {
    const policy::CameraView view = pipeline_.Prepare(camera, obs, normalizer, augment);
    rgb.push_back(view.rgb);
    if (view.depth.defined()) depth.push_back(view.depth);
  }

  // [B, To, C, h, w] per camera -> tokens [B * To, n_cameras, d]
  const std::int64_t batch = rgb[0].size(0);
  const std::int64_t n_obs_steps = rgb[0].size(1);
  const auto encode = [&](ImageEncoder& encoder, const std::vector<Tensor>& views) {
    std::vector<Tensor> rows;
    for (const Tensor& view : views) rows.push_back(view.flatten(0, 1));
    const Tensor features = encoder(torch::cat(rows));
    return features.unflatten(0, {static_cast<std::int64_t>(views.size()), batch * n_obs_steps})
        .transpose(0, 1);
  };
  const Tensor rgb_tokens = encode(rgb_encoder_, rgb);
  TraceStage("colour features", rgb_tokens);
  Tensor depth_tokens;
  if (!depth.empty()) {
    depth_tokens = encode(depth_encoder_, depth);
    TraceStage("depth features", depth_tokens);
  }
  Tensor fused = fusion_(rgb_tokens, depth_tokens).unflatten(0, {batch, n_obs_steps});
  TraceStage("fused features", fused);
  TraceParts(fused);
  if (low_dim_.empty()) return fused;
  const Tensor state = EncodeState(obs, normalizer);
  if (!torch::GradMode::is_enabled()) TraceStage("condition part: state", state);
  return torch::cat({fused, state}, /*dim=*/-1);
}

// Traces the features of each camera in [B, To, feature_dim of the fusion], for attention maps.
void RgbdObsEncoder::TraceParts(const Tensor& fused) const {
  if (!IsTracingStages() || torch::GradMode::is_enabled()) return;
  const std::int64_t width =
      fused.size(2) / (std::ssize(cameras_) * (depth_encoder_.is_empty() ? 1 : 2));
  std::int64_t first = 0;
  for (const char* modality : {"colour", "depth"}) {
    for (const Camera& camera : cameras_) {
      if (first == fused.size(2)) return;  // no depth
      TraceStage(fmt::format("condition part: {} of {}", modality, camera.rgb.name),
                 fused.narrow(2, first, width));
      first += width;
    }
  }
}

// [B, To, state_feature_dim].
Tensor RgbdObsEncoder::EncodeState(const TensorMap& obs, const Normalizer& normalizer) {
  std::vector<Tensor> values;
  for (const KeySpec& key : low_dim_) {
    const Tensor& value = obs.find(key.name)->second;
    TraceStage(key.name, value);
    values.push_back(normalizer.Normalize(key.name, value).flatten(2));
  }
  Tensor features = policy::ApplyLinear(
      state_linear2_,
      torch::relu(policy::ApplyLinear(state_linear1_, torch::cat(values, /*dim=*/-1))));
  TraceStage("state features", features);
  return features;
}

// A config of LeRobot has drop_n_last_frames among the params of the policy. Here the sampler reads
// a top-level key. Another value would have no effect, so it is refused.
void CheckDropNLastFrames(const Config& params, const Horizons& horizons) {
  const auto found = params.GetOptional<std::int64_t>(
      "drop_n_last_frames",
      "a check for configs of other programs: must be the number of the top-level key, or none");
  if (!found || *found == horizons.n_dropped_last_frames()) return;
  throw Error(
      ErrorCode::kConfig,
      fmt::format("{}: expected {}, which is what the sampler leaves out, found {}; leave "
                  "the key out, or set the top-level key drop_n_last_frames",
                  params.Where("drop_n_last_frames"), horizons.n_dropped_last_frames(), *found));
}

std::shared_ptr<policy::Denoiser> MakeDenoiser(const Config& params, const PolicySpec& spec,
                                               const policy::DenoiserChannels& channels,
                                               torch::nn::Module& parent) {
  const Config settings = params.Sub("denoiser", "the network that removes noise from actions");
  if (settings.GetChoice("type", {"transformer", "unet"},
                         "each has the keys of the policy of its name") == "unet") {
    return policy::MakeUnetDenoiser(settings, spec, channels, parent);
  }
  return policy::MakeTransformerDenoiser(settings, spec, channels, parent);
}

std::unique_ptr<Policy> Create(const Config& params, const PolicySpec& spec) {
  CheckDropNLastFrames(params, spec.horizons);
  const auto make_encoder = [](const Config& settings, const PolicySpec& of, auto& parent) {
    return std::make_unique<RgbdObsEncoder>(settings, of, parent);
  };
  return policy::DiffusionPolicy::Assemble("rgbd_fusion", params, spec, make_encoder, MakeDenoiser);
}

}  // namespace
}  // namespace dp_bench::rgbd_fusion

DPB_EXPORT_PLUGIN(dp_bench::Policy, "rgbd_fusion", "1.0.0", &dp_bench::rgbd_fusion::Create)
