// The linear normalizer of Diffusion Policy: naction = action * scale + offset, per dimension. Its
// numbers are saved in the checkpoint. A missing key is an error and never means identity.
#pragma once

#include <torch/types.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dp_bench/export.h"
#include "dp_bench/stats.h"

namespace dp_bench {

/// For low_dim keys, per dimension: limits: [min, max] -> [-1, 1]. gaussian: mean 0, std 1.
/// identity: unchanged. For colour images, uint8 0..255 or float 0..1: image: -> [-1, 1].
/// image_gaussian: mean 0, std 1 per channel. For depth, uint16 [mm] or float32 [m]: depth: [min,
/// max] metres -> [0, 1], values outside are clipped.
enum class NormalizeMode { kLimits, kGaussian, kIdentity, kImage, kImageGaussian, kDepth };

/// Brings observations and actions to the range a network works in, and back:
/// y = x * scale + offset.
class DPB_API Normalizer {
 public:
  /// How one key is normalized.
  struct Field {
    torch::Tensor scale;   // float32, the key's shape flattened to [D]; [C] for image_gaussian,
                           // [1] for image and depth
    torch::Tensor offset;  // same shape
    KeyStats stats;        // it was fitted to these; empty for image
    NormalizeMode mode = NormalizeMode::kIdentity;
    std::vector<int> zero_range_dims;  // dimensions whose range is below 1e-4 (limits) or 1e-4 std
  };

  using Fields = std::map<std::string, Field, std::less<>>;  // by key

  Normalizer() = default;
  explicit Normalizer(Fields fields) : fields_(std::move(fields)) {}

  /// x: [..., key shape]. Throws Error{kData} naming the existing keys if `key` has no field.
  torch::Tensor Normalize(std::string_view key, const torch::Tensor& x) const;
  torch::Tensor Unnormalize(std::string_view key, const torch::Tensor& x) const;

  const Fields& fields() const { return fields_; }

  void To(torch::Device device);

 private:
  const Field& Get(std::string_view key) const;

  Fields fields_;
};

}  // namespace dp_bench
