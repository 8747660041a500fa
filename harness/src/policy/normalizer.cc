// The linear normalizer of Diffusion Policy (Chi et al. 2023, section "Data normalization"): scale
// and offset per dimension, as in diffusion_policy's LinearNormalizer.
#include "dp_bench/normalizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "core/errors.h"
#include "dp_bench/array.h"
#include "policy/normalize_mode.h"

namespace dp_bench {

namespace policy {

NormalizeMode ParseNormalizeMode(std::string_view name) {
  const auto found = std::ranges::find(kNormalizeModeNames, name);
  if (found != kNormalizeModeNames.end()) {
    return static_cast<NormalizeMode>(found - kNormalizeModeNames.begin());
  }
  throw ConfigError("'{}' is not a normalization mode; the modes are {}", name,
                    fmt::join(kNormalizeModeNames, ", "));
}

std::vector<int> FindZeroRangeDims(const KeyStats& stats, NormalizeMode mode) {
  std::vector<double> spread;
  if (mode == NormalizeMode::kLimits) {
    std::ranges::transform(stats.max, stats.min, std::back_inserter(spread), std::minus());
  }
  if (mode == NormalizeMode::kGaussian || mode == NormalizeMode::kImageGaussian) spread = stats.std;
  std::vector<int> dims;
  for (std::size_t i = 0; i < spread.size(); ++i) {
    if (spread[i] < kRangeEps) dims.push_back(static_cast<int>(i));
  }
  return dims;
}

}  // namespace policy

namespace {

constexpr double kMaxUInt8 = 255.0;
constexpr double kMetresPerMillimetre = 1e-3;

// x with the trailing sizes that make up the key flattened to one, [..., D].
torch::Tensor FlattenKey(std::string_view key, const torch::Tensor& x, std::int64_t key_size) {
  std::int64_t product = 1;
  std::int64_t dim = x.dim();
  while (dim > 0 && (product < key_size || dim == x.dim())) product *= x.size(--dim);
  if (product != key_size || dim == x.dim()) {
    throw ShapeError(
        "'{}' has shape {}; its last sizes must multiply to the {} values that its normalizer was "
        "fitted to",
        key, ToString(x.sizes().vec()), key_size);
  }
  if (dim == x.dim() - 1) return x;
  std::vector<std::int64_t> shape(x.sizes().begin(), x.sizes().begin() + dim);
  shape.push_back(key_size);
  return x.reshape(shape);
}

struct ChannelFactors {
  torch::Tensor scale;   // [C, 1, 1]
  torch::Tensor offset;  // [C, 1, 1]
};

// For a field that was fitted to channels: scale and offset for images [..., C, H, W].
ChannelFactors PerChannel(std::string_view key, const Normalizer::Field& field,
                          const torch::Tensor& images) {
  const std::int64_t n_channels = field.scale.numel();
  if (images.dim() < 3 || images.size(-3) != n_channels) {
    throw ShapeError(
        "'{}' has shape {}; expected [..., {}, height, width], the channels that its normalizer "
        "was fitted to",
        key, ToString(images.sizes().vec()), n_channels);
  }
  return {field.scale.view({-1, 1, 1}), field.offset.view({-1, 1, 1})};
}

}  // namespace

torch::Tensor Normalizer::Normalize(std::string_view key, const torch::Tensor& x) const {
  const Field& field = Get(key);
  const double full = x.scalar_type() == torch::kUInt8 ? kMaxUInt8 : 1.0;
  if (field.mode == NormalizeMode::kImage) {
    return torch::add(field.offset, x, (policy::kOutputMax - policy::kOutputMin) / full);
  }
  if (field.mode == NormalizeMode::kImageGaussian) {
    const auto [scale, offset] = PerChannel(key, field, x);
    return torch::addcmul(offset, x.to(scale.scalar_type()), scale / full);
  }
  if (field.mode == NormalizeMode::kDepth) {
    const double unit = x.scalar_type() == torch::kUInt16 ? kMetresPerMillimetre : 1.0;
    return torch::addcmul(field.offset, x.to(field.scale.scalar_type()), field.scale * unit)
        .clamp_(0, 1);
  }
  const torch::Tensor flat = FlattenKey(key, x, field.scale.numel()).to(field.scale.scalar_type());
  // addcmul uses fused multiply-adds on some processors only
  return (flat * field.scale).add_(field.offset).view(x.sizes());
}

torch::Tensor Normalizer::Unnormalize(std::string_view key, const torch::Tensor& x) const {
  const Field& field = Get(key);
  if (field.mode == NormalizeMode::kImage || field.mode == NormalizeMode::kDepth) {
    return (x - field.offset) / field.scale;
  }
  if (field.mode == NormalizeMode::kImageGaussian) {
    const auto [scale, offset] = PerChannel(key, field, x);
    return (x - offset) / scale;
  }
  const torch::Tensor flat = FlattenKey(key, x, field.scale.numel()).to(field.scale.scalar_type());
  return (flat - field.offset).div_(field.scale).view(x.sizes());
}

void Normalizer::To(torch::Device device) {
  for (auto& [key, field] : fields_) {
    field.scale = field.scale.to(device);
    field.offset = field.offset.to(device);
  }
}

const Normalizer::Field& Normalizer::Get(std::string_view key) const {
  const auto found = fields_.find(key);
  if (found != fields_.end()) return found->second;
  std::vector<std::string> keys;
  for (const auto& [name, field] : fields_) keys.push_back(name);
  throw DataError("the normalizer has no key '{}'; it has: {}", key, fmt::join(keys, ", "));
}

}  // namespace dp_bench
