// See hybrid_obs_encoder.h.
#include "hybrid_obs_encoder.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "dp_bench/error.h"

namespace dp_bench::common {

using torch::Tensor;

HybridObsEncoder::HybridObsEncoder(const Config& params, const PolicySpec& spec,
                                   torch::nn::Module& parent)
    : n_obs_steps_(spec.horizons.n_obs_steps) {
  for (const KeySpec& key : spec.shape_meta.obs) {
    if (key.type == KeyType::kDepth) {
      throw Error(
          ErrorCode::kConfig,
          fmt::format("this policy reads low_dim and rgb observations; '{}' is depth", key.name));
    }
    (key.type == KeyType::kRgb ? cameras_ : low_dim_).push_back(key);
    if (key.type == KeyType::kLowDim) feature_dim_ += key.NumElements();
  }

  // every setting is read, so that one policy config fits tasks with and without cameras
  const auto crop_shape = params.GetOptional<std::vector<std::int64_t>>("crop_shape");
  crop_is_random_ = params.Get<bool>("crop_is_random", true);
  const Config settings = params.Sub("obs_encoder");
  const bool use_group_norm = settings.Get<bool>("use_group_norm", true);
  const std::int64_t num_keypoints =
      settings.GetInRange("spatial_softmax_num_keypoints", std::int64_t{32}, 1, 4096);
  const bool is_separate = settings.Get<bool>("use_separate_rgb_encoder_per_camera", false);
  if (cameras_.empty()) return;

  const Shape& image = cameras_[0].shape;  // [C, H, W]
  for (const KeySpec& camera : cameras_) {
    if (camera.shape == image && camera.dtype == DType::kUInt8) continue;
    throw Error(
        ErrorCode::kConfig,
        fmt::format("cameras must be uint8 and share one shape; '{}' is {} {}, '{}' is {} {}",
                    cameras_[0].name, ToString(image), Name(cameras_[0].dtype), camera.name,
                    ToString(camera.shape), Name(camera.dtype)));
  }
  const std::vector<std::int64_t> crop = crop_shape.value_or(Shape{image[1], image[2]});
  if (crop.size() != 2 || crop[0] < 1 || crop[1] < 1 || crop[0] > image[1] || crop[1] > image[2]) {
    throw Error(ErrorCode::kConfig,
                fmt::format("{} is {}; it must be [height, width] within the images' {}",
                            params.Where("crop_shape"), ToString(crop), ToString(image)));
  }
  crop_height_ = crop[0];
  crop_width_ = crop[1];

  const RgbEncoderConfig config = {.channels = image[0],
                                   .height = crop_height_,
                                   .width = crop_width_,
                                   .norm = use_group_norm ? NormKind::kGroup : NormKind::kBatch,
                                   .spatial_softmax_num_keypoints = num_keypoints};
  if (is_separate) {
    const auto list =
        parent.register_module("rgb_encoder", std::make_shared<torch::nn::Module>("rgb_encoder"));
    for (std::size_t i = 0; i < cameras_.size(); ++i) {
      rgb_encoders_.push_back(list->register_module(std::to_string(i), RgbEncoder(config)));
    }
  } else {
    rgb_encoders_.push_back(parent.register_module("rgb_encoder", RgbEncoder(config)));
  }
  feature_dim_ += 2 * num_keypoints * static_cast<std::int64_t>(cameras_.size());
}

Tensor HybridObsEncoder::Encode(const TensorMap& obs, const Normalizer& normalizer,
                                NoiseSource* crop_noise) {
  std::vector<Tensor> features;  // each [B, To, D]
  for (const KeySpec& key : low_dim_) {
    const Tensor nobs = normalizer.Normalize(key.name, obs.find(key.name)->second);
    features.push_back(nobs.reshape({nobs.size(0), n_obs_steps_, -1}));
  }
  for (std::size_t i = 0; i < cameras_.size(); ++i) {
    const std::string& name = cameras_[i].name;
    const Tensor images = Crop(obs.find(name)->second, crop_noise);
    const Tensor nimages = normalizer.Normalize(name, images).flatten(0, 1);
    RgbEncoder& encoder = rgb_encoders_[rgb_encoders_.size() == 1 ? 0 : i];
    features.push_back(encoder(nimages).view({images.size(0), n_obs_steps_, -1}));
  }
  return torch::cat(features, /*dim=*/-1);  // [B, To, Do]
}

// images [B, To, C, H, W] -> [B, To, C, h, w]; a row's steps share one offset.
Tensor HybridObsEncoder::Crop(const Tensor& images, NoiseSource* crop_noise) const {
  const std::int64_t spare_y = images.size(3) - crop_height_;
  const std::int64_t spare_x = images.size(4) - crop_width_;
  if (spare_y == 0 && spare_x == 0) return images;
  const auto window = [&](const Tensor& x, std::int64_t dim, std::int64_t top, std::int64_t left) {
    return x.narrow(dim, top, crop_height_).narrow(dim + 1, left, crop_width_);
  };
  if (crop_noise == nullptr || !crop_is_random_) {
    // torchvision's CenterCrop rounds half to even
    const auto centre = [](std::int64_t spare) { return (spare + (spare % 4 == 3 ? 1 : 0)) / 2; };
    return window(images, 3, centre(spare_y), centre(spare_x));
  }

  const Tensor top = crop_noise->RandInt(StreamId::kCrop, spare_y + 1);
  const Tensor left = crop_noise->RandInt(StreamId::kCrop, spare_x + 1);
  std::vector<Tensor> rows;
  for (std::int64_t i = 0; i < images.size(0); ++i) {
    rows.push_back(window(images[i], 2, top[i].item<std::int64_t>(), left[i].item<std::int64_t>()));
  }
  return torch::stack(rows);
}

}  // namespace dp_bench::common
