// See vision_pipeline.h. Images are views [B, To, C, H, W] of storage [B, To, H, W, C]. Crops
// keep that order, which is also the fastest for convolutions.
#include "dp_bench/policy/vision/vision_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/errors.h"
#include "dp_bench/stage_trace.h"
#include "policy/kernels/loop_tensors.h"
#include "policy/kernels/resize_kernels.h"
#include "policy/vision/image_augmentation.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;

constexpr double kMaxUInt8 = 255.0;
constexpr double kMaxPixels = 1 << 20;  // far above the side of any image

// Assigns every depth key to its camera.
void PairDepth(const Config& params, const std::vector<KeySpec>& depths,
               std::vector<Camera>* cameras) {
  const Config depth_of = params.Sub(
      "depth_of",
      "which camera a depth key belongs to; if left out, they pair in alphabetical order");
  if (depth_of.Keys().empty() && depths.size() != cameras->size()) {
    throw ConfigError(
        "shape_meta has {} colour cameras and {} depth keys; say which belong together: {}: "
        "{{\"<rgb key>\": \"<depth key>\"}}",
        cameras->size(), depths.size(), params.Where("depth_of"));
  }
  std::size_t n_paired = 0;
  for (std::size_t i = 0; i < cameras->size(); ++i) {
    Camera& camera = (*cameras)[i];
    if (depth_of.Keys().empty()) {
      camera.depth = depths[i];
    } else if (const auto name = depth_of.GetOptional<std::string>(
                   camera.rgb.name,
                   "for an rgb key: its depth key, or null for a camera without")) {
      for (const KeySpec& depth : depths) {
        if (depth.name == *name) camera.depth = depth;
      }
      if (!camera.depth) {
        throw ConfigError("{}: shape_meta has no depth key '{}'", depth_of.Where(camera.rgb.name),
                          *name);
      }
    }
    if (camera.depth) ++n_paired;
  }
  if (n_paired < depths.size()) {
    throw ConfigError("{} pairs {} of {} depth keys with a camera; the others would never be seen",
                      params.Where("depth_of"), n_paired, depths.size());
  }
}

void RequireOneShape(const std::vector<Camera>& cameras) {
  const KeySpec& first = cameras[0].rgb;
  for (const Camera& camera : cameras) {
    if (camera.rgb.shape != first.shape || camera.rgb.dtype != DType::kUInt8) {
      throw ConfigError("cameras must be uint8 and share one shape; '{}' is {} {}, '{}' is {} {}",
                        first.name, ToString(first.shape), Name(first.dtype), camera.rgb.name,
                        ToString(camera.rgb.shape), Name(camera.rgb.dtype));
    }
    if (!camera.depth) continue;
    const Shape wanted = {1, first.shape[1], first.shape[2]};
    if (camera.depth->shape != wanted) {
      throw ConfigError("'{}' is {}; expected {}, the size of its camera '{}'", camera.depth->name,
                        ToString(camera.depth->shape), ToString(wanted), camera.rgb.name);
    }
  }
}

// The crop of images of size `whole`. A value up to 1 is a fraction of the image.
Shape ReadCrop(const Config& params, const Shape& whole) {
  constexpr const char* kKey = "crop_shape";
  const auto asked = params.GetOptional<std::vector<double>>(
      kKey,
      "[height, width] of the part that is seen, the same for colour and depth: pixels, or up to 1 "
      "a fraction of the image; none for the whole image");
  if (!asked) return whole;
  if (asked->size() != 2) {
    throw ConfigError("{}: expected [height, width], found [{}]", params.Where(kKey),
                      fmt::join(*asked, ", "));
  }
  Shape crop;
  for (std::size_t i = 0; i < 2; ++i) {
    const double value = (*asked)[i];
    if (!(value > 0.0 && value <= kMaxPixels) || (value > 1.0 && value != std::floor(value))) {
      throw ConfigError("{}: expected whole pixels, or fractions between 0 and 1, found [{}]",
                        params.Where(kKey), fmt::join(*asked, ", "));
    }
    const double pixels = value <= 1.0 ? value * static_cast<double>(whole[i]) : value;
    crop.push_back(std::max(std::llround(pixels), 1LL));
  }
  return crop;
}

// [height, width] of `key`, or the default when it is absent.
Shape ReadSize(const Config& params, const char* key, const Shape& default_size,
               const KeyMeaning& meaning) {
  Shape size = params.GetOptional<std::vector<std::int64_t>>(key, meaning).value_or(default_size);
  if (size.size() != 2 || size[0] < 1 || size[1] < 1) {
    throw ConfigError("{} is {}; expected [height, width]", params.Where(key), ToString(size));
  }
  return size;
}

void RequireFinite(const std::string& key, const Tensor& depth) {
  if (depth.scalar_type() != torch::kFloat32 || depth.isfinite().all().item<bool>()) return;
  throw NumericError(
      "'{}' holds {} values that are NaN or infinite; expected metres (where the sensor sees "
      "nothing, the far end of its range)",
      key, depth.isfinite().logical_not().sum().item<std::int64_t>());
}

// images [N, C, H, W] float32 -> [N, C, height, width], with the channels innermost.
Tensor ResizeBilinear(const Tensor& images, const Shape& size) {
  if (torch::GradMode::is_enabled() || !UsesOwnLoops(images)) {
    return at::upsample_bilinear2d(images, size, /*align_corners=*/false);
  }
  constexpr auto kLayout = torch::MemoryFormat::ChannelsLast;
  const Tensor x = images.contiguous(kLayout);
  Tensor y = at::empty({x.size(0), x.size(1), size[0], size[1]}, x.options(), kLayout);
  RunBilinearResize({.batch = x.size(0),
                     .channels = x.size(1),
                     .in_height = x.size(2),
                     .in_width = x.size(3),
                     .out_height = size[0],
                     .out_width = size[1],
                     .x = x.const_data_ptr<float>(),
                     .y = y.mutable_data_ptr<float>()},
                    at::get_num_threads());
  return y;
}

enum class Interpolation { kNearest, kBilinear, kAntialiased };

// images [B, To, C, H, W] float32 -> [B, To, C, height, width].
Tensor Resize(const Tensor& images, const Shape& size, Interpolation interpolation) {
  const Tensor flat = images.flatten(0, 1);
  Tensor resized;
  switch (interpolation) {
    case Interpolation::kNearest:
      resized = at::upsample_nearest2d(flat, size);
      break;
    case Interpolation::kBilinear:
      resized = ResizeBilinear(flat, size);
      break;
    case Interpolation::kAntialiased:
      resized = at::_upsample_bilinear2d_aa(flat, size, /*align_corners=*/false);
      break;
  }
  return resized.unflatten(0, {images.size(0), images.size(1)});
}

}  // namespace

std::vector<Camera> FindCameras(const Config& params, const PolicySpec& spec) {
  std::vector<Camera> cameras;
  std::vector<KeySpec> depths;
  for (const KeySpec& key : spec.shape_meta.obs) {
    if (key.type == KeyType::kRgb) cameras.push_back({.rgb = key});
    if (key.type == KeyType::kDepth) depths.push_back(key);
  }
  if (!depths.empty()) PairDepth(params, depths, &cameras);
  if (!cameras.empty()) RequireOneShape(cameras);
  return cameras;
}

VisionPipeline::VisionPipeline(const Config& params, const std::vector<Camera>& cameras)
    : crop_is_random_(params.Get<bool>(
          "crop_is_random", true,
          "a random place per sample in training; false: the centre, as in evaluation")),
      augmentation_(std::make_shared<ImageAugmentation>(params)) {
  // every setting is read, so that one policy config fits tasks with and without cameras
  const Shape image =
      cameras.empty() ? Shape{1, 1} : Shape{cameras[0].rgb.shape[1], cameras[0].rgb.shape[2]};
  resizes_first_ = params.Get<bool>("resize_first", false,
                                    "resize the whole image, colour with antialiasing, and crop "
                                    "the result, as LeRobot does; false: crop, then resize");
  const auto read_size = [&](const Shape& default_size) {
    return ReadSize(params, "resize_shape", default_size,
                    "[height, width] after the crop, or before it with resize_first; bilinear for "
                    "colour, nearest neighbour for depth; none for no change");
  };
  const Shape whole = resizes_first_ ? read_size(image) : image;
  const Shape crop = ReadCrop(params, whole);
  const Shape out = resizes_first_ ? crop : read_size(crop);
  if (cameras.empty()) return;

  if (crop[0] > whole[0] || crop[1] > whole[1]) {
    throw ConfigError(
        "{} is {}; it must lie within the images of '{}', {}. A fraction fits images of any size: "
        "[0.9, 0.9]",
        params.Where("crop_shape"), ToString(crop), cameras[0].rgb.name, ToString(whole));
  }
  crop_ = crop;
  spare_height_ = whole[0] - crop[0];
  spare_width_ = whole[1] - crop[1];
  resized_ = resizes_first_ ? whole : out;
  is_resizing_ = resizes_first_ ? whole != image : out != crop;
  out_ = out;
}

CameraView VisionPipeline::Prepare(const Camera& camera, const TensorMap& obs,
                                   const Normalizer& normalizer, NoiseSource* augment) const {
  const AutocastGuard full_precision(obs.find(camera.rgb.name)->second.device().type());
  const CropPlaces places = DrawCrops(augment);
  CameraView view;
  const Tensor& raw = obs.find(camera.rgb.name)->second;
  TraceStage(camera.rgb.name, raw);
  const bool is_augmenting = augment != nullptr && !augmentation_->empty();
  Tensor rgb = raw;
  if (!resizes_first_) {
    rgb = Crop(rgb, places);
    TraceStage("  cropped", rgb);
  }
  if (is_resizing_ || is_augmenting) {
    const torch::ScalarType type = normalizer.fields().at(camera.rgb.name).scale.scalar_type();
    rgb = rgb.to(type).div_(kMaxUInt8);
  }
  if (is_resizing_) {
    rgb = Resize(rgb, resized_,
                 resizes_first_ ? Interpolation::kAntialiased : Interpolation::kBilinear);
  }
  if (resizes_first_) rgb = Crop(rgb, places);
  if (is_augmenting) rgb = augmentation_->Apply(rgb, *augment);
  view.rgb = normalizer.Normalize(camera.rgb.name, rgb);
  TraceStage("  resized, normalized", view.rgb);
  if (!camera.depth) return view;

  const Tensor& raw_depth = obs.find(camera.depth->name)->second;
  TraceStage(camera.depth->name, raw_depth);
  Tensor depth = raw_depth;
  if (!resizes_first_) depth = Crop(depth, places);
  RequireFinite(camera.depth->name, depth);
  depth = normalizer.Normalize(camera.depth->name, depth);
  if (is_resizing_) depth = Resize(depth, resized_, Interpolation::kNearest);
  if (resizes_first_) depth = Crop(depth, places);
  view.depth = depth;
  TraceStage("  cropped, resized, normalized", view.depth);
  return view;
}

VisionPipeline::CropPlaces VisionPipeline::DrawCrops(NoiseSource* augment) const {
  if (augment == nullptr || !crop_is_random_ || !is_cropping()) return {};
  CropPlaces places;
  places.top = augment->RandInt(StreamId::kCrop, spare_height_ + 1);
  places.left = augment->RandInt(StreamId::kCrop, spare_width_ + 1);
  return places;
}

// images [B, To, C, H, W] -> [B, To, C, h, w].
Tensor VisionPipeline::Crop(const Tensor& images, const CropPlaces& places) const {
  if (!is_cropping()) return images;
  const auto window = [&](const Tensor& x, std::int64_t dim, std::int64_t top, std::int64_t left) {
    return x.narrow(dim, top, crop_[0]).narrow(dim + 1, left, crop_[1]);
  };
  if (!places.top.defined()) {
    // torchvision's CenterCrop rounds half to even
    const auto centre = [](std::int64_t spare) { return (spare + (spare % 4 == 3 ? 1 : 0)) / 2; };
    return window(images, 3, centre(spare_height_), centre(spare_width_));
  }

  const Tensor stored = images.permute({0, 1, 3, 4, 2});
  std::vector<Tensor> rows;
  for (std::int64_t i = 0; i < images.size(0); ++i) {
    rows.push_back(window(stored[i], 1, places.top[i].item<std::int64_t>(),
                          places.left[i].item<std::int64_t>()));
  }
  return torch::stack(rows).permute({0, 1, 4, 2, 3});
}

}  // namespace dp_bench::policy
