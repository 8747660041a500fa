// From the images of an observation to the input of an image encoder: crop, resize, augmentation,
// normalization. Shared by all image policies.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dp_bench/policy.h"

namespace dp_bench::policy {

class ImageAugmentation;

/// A camera of shape_meta: its colour key, and the depth key of the same view.
struct Camera {
  KeySpec rgb;
  std::optional<KeySpec> depth;
};

/// The cameras of shape_meta in alphabetical order of their colour keys; empty if there are none.
/// Depth keys are assigned to colour keys in alphabetical order, unless `depth_of` in `params`
/// gives the pairs: {"<rgb key>": "<depth key>"}. Throws Error{kConfig} if a depth key has no
/// camera, or if cameras differ in shape.
std::vector<Camera> FindCameras(const Config& params, const PolicySpec& spec);

/// The images of one camera, [B, To, C, h, w] float32, normalized.
struct CameraView {
  torch::Tensor rgb;
  torch::Tensor depth;  // undefined for a camera without depth
};

/// Crops, resizes and augments the images of all cameras before they are encoded.
class VisionPipeline {
 public:
  /// Reads crop_shape, crop_is_random, resize_shape, resize_first and augmentation from `params`.
  /// Throws Error{kConfig} for a crop larger than the images.
  VisionPipeline(const Config& params, const std::vector<Camera>& cameras);

  /// Height and width of the output.
  std::int64_t height() const { return out_[0]; }
  std::int64_t width() const { return out_[1]; }

  /// One camera of `obs`, in raw units as in Batch. Both images get the same crop: random per row
  /// if `augment` is given, else centred. Then they are resized (colours bilinear, depth nearest
  /// neighbour, as torch.nn.functional.interpolate), colours are augmented if `augment` is given,
  /// and both are normalized. With resize_first they are resized before the crop, colours with
  /// antialiasing, as torchvision's Resize does. All steps of a row are treated alike. Throws
  /// Error{kNumeric} naming the key if depth is not finite.
  CameraView Prepare(const Camera& camera, const TensorMap& obs, const Normalizer& normalizer,
                     NoiseSource* augment) const;

 private:
  /// The positions of the rows' crops; empty: centred.
  struct CropPlaces {
    torch::Tensor top;   // [B]
    torch::Tensor left;  // [B]
  };
  CropPlaces DrawCrops(NoiseSource* augment) const;
  torch::Tensor Crop(const torch::Tensor& images, const CropPlaces& places) const;
  bool is_cropping() const { return spare_height_ > 0 || spare_width_ > 0; }

  Shape crop_ = {0, 0};            // [height, width], as all of these
  std::int64_t spare_height_ = 0;  // rows of pixels outside the crop
  std::int64_t spare_width_ = 0;
  bool resizes_first_ = false;  // before the crop
  bool is_resizing_ = false;
  Shape resized_ = {0, 0};  // what resizing makes
  Shape out_ = {0, 0};
  bool crop_is_random_ = true;
  std::shared_ptr<const ImageAugmentation> augmentation_;
};

}  // namespace dp_bench::policy
