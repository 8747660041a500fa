// The observation encoder of "hybrid" policies.

#include <torch/nn/init.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/errors.h"
#include "dp_bench/policy/kernels/row_product.h"
#include "dp_bench/policy/vision/image_encoder.h"
#include "dp_bench/policy/vision/obs_encoder.h"
#include "dp_bench/policy/vision/vision_pipeline.h"
#include "dp_bench/stage_trace.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;

class HybridObsEncoder final : public ObsEncoder {
 public:
  HybridObsEncoder(const Config& params, const PolicySpec& spec, torch::nn::Module& parent);

  std::int64_t feature_dim() const override { return feature_dim_; }
  std::int64_t task_dim() const override {
    return task_encoder_.is_empty() ? 0 : task_encoder_->options.out_features();
  }
  Tensor Encode(const TensorMap& obs, const Normalizer& normalizer, NoiseSource* augment) override;
  void set_gradient_checkpointing(bool is_on) override {
    for (ImageEncoder& encoder : rgb_encoders_) encoder->set_gradient_checkpointing(is_on);
  }

 private:
  void AddTaskEncoder(const Config& params, const PolicySpec& spec, torch::nn::Module& parent);

  std::vector<KeySpec> low_dim_;
  std::vector<Camera> cameras_;
  VisionPipeline pipeline_;
  std::int64_t feature_dim_ = 0;
  std::vector<ImageEncoder> rgb_encoders_;  // one per camera, or one for all
  std::string task_key_;
  torch::nn::Linear task_encoder_{nullptr};  // null without a task key
};

HybridObsEncoder::HybridObsEncoder(const Config& params, const PolicySpec& spec,
                                   torch::nn::Module& parent)
    : low_dim_(LowDimKeys(spec)), cameras_(FindCameras(params, spec)), pipeline_(params, cameras_) {
  for (const KeySpec& key : low_dim_) feature_dim_ += key.NumElements();
  AddTaskEncoder(params, spec, parent);

  // every setting is read, so that one policy config fits tasks with and without cameras
  const Config settings = params.Sub("obs_encoder", "the network that turns images into features");
  const bool is_separate = settings.Get<bool>("use_separate_rgb_encoder_per_camera", false,
                                              "one network per camera; false: they share one");
  ImageEncoderConfig config = ImageEncoderConfig::FromConfig(settings);
  if (cameras_.empty()) return;

  config.in_channels = cameras_[0].rgb.shape[0];
  config.height = pipeline_.height();
  config.width = pipeline_.width();
  if (is_separate) {
    const auto list =
        parent.register_module("rgb_encoder", std::make_shared<torch::nn::Module>("rgb_encoder"));
    for (std::size_t i = 0; i < cameras_.size(); ++i) {
      rgb_encoders_.push_back(list->register_module(std::to_string(i), ImageEncoder(config)));
    }
  } else {
    rgb_encoders_.push_back(parent.register_module("rgb_encoder", ImageEncoder(config)));
  }
  feature_dim_ += config.feature_dim() * static_cast<std::int64_t>(cameras_.size());
}

void HybridObsEncoder::AddTaskEncoder(const Config& params, const PolicySpec& spec,
                                      torch::nn::Module& parent) {
  const std::int64_t dim =
      params.GetInRange("task_embed_dim", std::int64_t{64}, 1, 4096,
                        "features of the learned embedding of the task key, if there is one");
  const std::vector<KeySpec>& obs = spec.shape_meta.obs;
  const auto key = std::ranges::find(obs, KeyType::kTask, &KeySpec::type);
  if (key == obs.end()) return;
  task_key_ = key->name;
  task_encoder_ = parent.register_module(
      "task_encoder",
      torch::nn::Linear(torch::nn::LinearOptions(key->NumElements(), dim).bias(false)));
  // as torch.nn.Embedding, which it is for one-hot vectors
  torch::nn::init::normal_(task_encoder_->weight);
  feature_dim_ += dim;
}

Tensor HybridObsEncoder::Encode(const TensorMap& obs, const Normalizer& normalizer,
                                NoiseSource* augment) {
  std::vector<Tensor> features;                           // each [B, To, D]
  const auto trace_part = [&](const std::string& name) {  // for attention maps, not in training
    if (IsTracingStages() && !torch::GradMode::is_enabled()) {
      TraceStage("condition part: " + name, features.back());
    }
  };
  for (const KeySpec& key : low_dim_) {
    const Tensor& value = obs.find(key.name)->second;
    TraceStage(key.name, value);
    features.push_back(normalizer.Normalize(key.name, value).flatten(2));
    trace_part(key.name);
  }
  for (std::size_t i = 0; i < cameras_.size(); ++i) {
    const Tensor images = pipeline_.Prepare(cameras_[i], obs, normalizer, augment).rgb;
    ImageEncoder& encoder = rgb_encoders_[rgb_encoders_.size() == 1 ? 0 : i];
    features.push_back(
        encoder(images.flatten(0, 1)).unflatten(0, {images.size(0), images.size(1)}));
    TraceStage("  features", features.back());
    trace_part(cameras_[i].rgb.name);
  }
  if (!task_encoder_.is_empty()) {
    const Tensor task = normalizer.Normalize(task_key_, obs.find(task_key_)->second).flatten(2);
    features.push_back(ApplyLinear(task_encoder_, task));
    trace_part(task_key_);
  }
  return torch::cat(features, /*dim=*/-1);  // [B, To, Do]
}

}  // namespace

std::vector<KeySpec> LowDimKeys(const PolicySpec& spec) {
  std::vector<KeySpec> keys;
  for (const KeySpec& key : spec.shape_meta.obs) {
    if (key.type == KeyType::kLowDim) keys.push_back(key);
    if (key.type != KeyType::kDepth) continue;
    throw ConfigError(
        "this policy reads low_dim and rgb observations; '{}' is depth. Use the task without depth "
        "(--obs rgb), or a policy that reads it (--policy rgbd_fusion)",
        key.name);
  }
  return keys;
}

std::unique_ptr<ObsEncoder> MakeHybridObsEncoder(const Config& params, const PolicySpec& spec,
                                                 torch::nn::Module& parent) {
  return std::make_unique<HybridObsEncoder>(params, spec, parent);
}

}  // namespace dp_bench::policy
