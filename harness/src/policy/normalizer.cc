// The linear normalizer of Diffusion Policy (Chi et al. 2023, section "Data normalization"): scale
// and offset per dimension, with the formulas of diffusion_policy's LinearNormalizer.
#include "dp_bench/normalizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "dp_bench/array.h"
#include "dp_bench/error.h"
#include "policy/normalize_mode.h"

namespace dp_bench {
namespace {

constexpr double kRangeEps = 1e-4;
constexpr double kOutputMin = -1.0;
constexpr double kOutputMax = 1.0;
constexpr double kMaxUInt8 = 255.0;
constexpr double kMetresPerMillimetre = 1e-3;

using Numbers = std::vector<double>;

Numbers Range(const KeyStats& stats) {
  Numbers range;
  for (std::size_t i = 0; i < stats.min.size(); ++i) range.push_back(stats.max[i] - stats.min[i]);
  return range;
}

std::vector<int> FindZeroRangeDims(const KeyStats& stats, NormalizeMode mode) {
  Numbers spread;
  if (mode == NormalizeMode::kLimits) spread = Range(stats);
  if (mode == NormalizeMode::kGaussian || mode == NormalizeMode::kImageGaussian) spread = stats.std;
  std::vector<int> dims;
  for (std::size_t i = 0; i < spread.size(); ++i) {
    if (spread[i] < kRangeEps) dims.push_back(static_cast<int>(i));
  }
  return dims;
}

void RequireUsable(const std::string& key, std::string_view name, const Numbers& numbers,
                   std::size_t wanted_size) {
  if (numbers.empty() || numbers.size() != wanted_size) {
    throw Error(
        ErrorCode::kData,
        fmt::format("the statistics of '{}' have {} values of {}, expected {}; compute them anew "
                    "from the dataset",
                    key, numbers.size(), name, wanted_size));
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (std::isfinite(numbers[i])) continue;
    throw Error(
        ErrorCode::kNumeric,
        fmt::format("{} of '{}' is {} in dimension {}; the dataset holds values that are not "
                    "finite",
                    name, key, numbers[i], i));
  }
}

struct ScaleAndOffset {
  Numbers scale;
  Numbers offset;
};

ScaleAndOffset FitLimits(const KeyStats& stats) {
  ScaleAndOffset result;
  const Numbers range = Range(stats);
  for (std::size_t i = 0; i < range.size(); ++i) {
    const bool has_range = range[i] >= kRangeEps;
    const double scale = has_range ? (kOutputMax - kOutputMin) / range[i] : 1.0;
    result.scale.push_back(scale);
    result.offset.push_back(has_range ? kOutputMin - scale * stats.min[i]
                                      : (kOutputMax + kOutputMin) / 2.0 - stats.min[i]);
  }
  return result;
}

ScaleAndOffset FitGaussian(const KeyStats& stats) {
  ScaleAndOffset result;
  for (std::size_t i = 0; i < stats.mean.size(); ++i) {
    const double scale = stats.std[i] < kRangeEps ? 1.0 : 1.0 / stats.std[i];
    result.scale.push_back(scale);
    result.offset.push_back(-stats.mean[i] * scale);
  }
  return result;
}

// From [min, max] to [0, 1].
ScaleAndOffset FitDepth(const std::string& key, const KeyStats& stats) {
  const double range = Range(stats)[0];
  if (range < kRangeEps) {
    throw Error(ErrorCode::kData,
                fmt::format("the depth range of '{}' is {} to {} m; expected min < max", key,
                            stats.min[0], stats.max[0]));
  }
  return {{1.0 / range}, {-stats.min[0] / range}};
}

torch::Tensor ToDouble(const Numbers& numbers) { return torch::tensor(numbers, torch::kFloat64); }

Numbers ToNumbers(const torch::Tensor& tensor) {
  const torch::Tensor host = tensor.to(torch::kCPU, torch::kFloat64).contiguous();
  const double* data = host.data_ptr<double>();
  return {data, data + host.numel()};
}

// Flattens the trailing sizes of x that make up the key to one, [..., D].
torch::Tensor FlattenKey(std::string_view key, const torch::Tensor& x, std::int64_t key_size) {
  std::int64_t product = 1;
  std::int64_t dim = x.dim();
  while (dim > 0 && (product < key_size || dim == x.dim())) product *= x.size(--dim);
  if (product != key_size || dim == x.dim()) {
    throw Error(
        ErrorCode::kShape,
        fmt::format("'{}' has shape {}; its last sizes must multiply to the {} values that its "
                    "normalizer was fitted to",
                    key, ToString(x.sizes().vec()), key_size));
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
    throw Error(
        ErrorCode::kShape,
        fmt::format("'{}' has shape {}; expected [..., {}, height, width], the channels that "
                    "its normalizer was fitted to",
                    key, ToString(images.sizes().vec()), n_channels));
  }
  return {field.scale.view({-1, 1, 1}), field.offset.view({-1, 1, 1})};
}

const torch::Tensor& Require(const TensorMap& state, const std::string& name) {
  const auto found = state.find(name);
  if (found != state.end()) return found->second;
  throw Error(ErrorCode::kCheckpoint,
              fmt::format("the normalizer's state has no tensor '{}'", name));
}

Numbers ReadNumbers(const TensorMap& state, const std::string& name) {
  const auto found = state.find(name);
  return found == state.end() ? Numbers{} : ToNumbers(found->second);
}

// The named fields of KeyStats, as StateDict writes them.
std::vector<std::pair<std::string, Numbers KeyStats::*>> StatsMembers() {
  return {{".min", &KeyStats::min},
          {".max", &KeyStats::max},
          {".mean", &KeyStats::mean},
          {".std", &KeyStats::std}};
}

}  // namespace

NormalizeMode ParseNormalizeMode(std::string_view name) {
  const auto found = std::ranges::find(policy::kNormalizeModeNames, name);
  if (found != policy::kNormalizeModeNames.end()) {
    return static_cast<NormalizeMode>(found - policy::kNormalizeModeNames.begin());
  }
  throw Error(ErrorCode::kConfig, fmt::format("'{}' is not a normalization mode; the modes are {}",
                                              name, fmt::join(policy::kNormalizeModeNames, ", ")));
}

void Normalizer::Fit(const std::string& key, const KeyStats& stats, NormalizeMode mode) {
  ScaleAndOffset fit;
  switch (mode) {
    case NormalizeMode::kLimits:
      RequireUsable(key, "min", stats.min, stats.min.size());
      RequireUsable(key, "max", stats.max, stats.min.size());
      fit = FitLimits(stats);
      break;
    case NormalizeMode::kGaussian:
    case NormalizeMode::kImageGaussian:
      RequireUsable(key, "mean", stats.mean, stats.mean.size());
      RequireUsable(key, "std", stats.std, stats.mean.size());
      fit = FitGaussian(stats);
      break;
    case NormalizeMode::kIdentity:
      RequireUsable(key, "min", stats.min, stats.min.size());
      fit = {Numbers(stats.min.size(), 1.0), Numbers(stats.min.size(), 0.0)};
      break;
    case NormalizeMode::kDepth:
      RequireUsable(key, "min", stats.min, 1);
      RequireUsable(key, "max", stats.max, 1);
      fit = FitDepth(key, stats);
      break;
    case NormalizeMode::kImage:
      fit = {{kOutputMax - kOutputMin}, {kOutputMin}};
      break;
  }
  fields_[key] = {.scale = torch::tensor(fit.scale, torch::kFloat32),
                  .offset = torch::tensor(fit.offset, torch::kFloat32),
                  .stats = mode == NormalizeMode::kImage ? KeyStats{} : stats,
                  .mode = mode,
                  .zero_range_dims = FindZeroRangeDims(stats, mode)};
}

torch::Tensor Normalizer::Normalize(std::string_view key, const torch::Tensor& x) const {
  const Field& field = Get(key);
  const double full = x.scalar_type() == torch::kUInt8 ? kMaxUInt8 : 1.0;
  if (field.mode == NormalizeMode::kImage) {
    return torch::add(field.offset, x, (kOutputMax - kOutputMin) / full);
  }
  if (field.mode == NormalizeMode::kImageGaussian) {
    const auto [scale, offset] = PerChannel(key, field, x);
    return torch::addcmul(offset, x.to(torch::kFloat32), scale / full);
  }
  if (field.mode == NormalizeMode::kDepth) {
    const double unit = x.scalar_type() == torch::kUInt16 ? kMetresPerMillimetre : 1.0;
    return torch::addcmul(field.offset, x.to(torch::kFloat32), field.scale * unit).clamp_(0, 1);
  }
  const torch::Tensor flat = FlattenKey(key, x, field.scale.numel()).to(torch::kFloat32);
  return torch::addcmul(field.offset, flat, field.scale).view(x.sizes());
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
  const torch::Tensor flat = FlattenKey(key, x, field.scale.numel()).to(torch::kFloat32);
  return (flat - field.offset).div_(field.scale).view(x.sizes());
}

void Normalizer::To(torch::Device device) {
  for (auto& [key, field] : fields_) {
    field.scale = field.scale.to(device);
    field.offset = field.offset.to(device);
  }
}

TensorMap Normalizer::StateDict() const {
  TensorMap state;
  for (const auto& [key, field] : fields_) {
    state[key + ".scale"] = field.scale.to(torch::kCPU);
    state[key + ".offset"] = field.offset.to(torch::kCPU);
    for (const auto& [suffix, member] : StatsMembers()) {
      const Numbers& numbers = field.stats.*member;
      if (!numbers.empty()) state[key + suffix] = ToDouble(numbers);
    }
    state[key + ".count"] = torch::tensor(field.stats.count, torch::kInt64);
    state[key + ".mode"] = torch::tensor(static_cast<std::int64_t>(field.mode), torch::kInt64);
  }
  return state;
}

Normalizer Normalizer::FromStateDict(const TensorMap& state) {
  constexpr std::string_view kScale = ".scale";
  Normalizer normalizer;
  for (const auto& [name, scale] : state) {
    if (!name.ends_with(kScale)) continue;
    const std::string key = name.substr(0, name.size() - kScale.size());

    const auto mode = Require(state, key + ".mode").item<std::int64_t>();
    if (mode < 0 || mode >= std::ssize(policy::kNormalizeModeNames)) {
      throw Error(
          ErrorCode::kCheckpoint,
          fmt::format("the normalizer's state has mode {} for '{}', expected 0 to 5", mode, key));
    }
    Field field{.scale = scale.to(torch::kFloat32),
                .offset = Require(state, key + ".offset").to(torch::kFloat32),
                .mode = static_cast<NormalizeMode>(mode)};
    if (field.scale.dim() != 1 || field.scale.sizes() != field.offset.sizes()) {
      throw Error(
          ErrorCode::kCheckpoint,
          fmt::format("the normalizer's state has scale {} and offset {} for '{}'; both must "
                      "be [D]",
                      ToString(field.scale.sizes().vec()), ToString(field.offset.sizes().vec()),
                      key));
    }
    for (const auto& [suffix, member] : StatsMembers()) {
      field.stats.*member = ReadNumbers(state, key + suffix);
    }
    field.stats.count = Require(state, key + ".count").item<std::int64_t>();
    if (field.stats.min.size() == field.stats.max.size()) {
      field.zero_range_dims = FindZeroRangeDims(field.stats, field.mode);
    }
    normalizer.fields_[key] = std::move(field);
  }
  return normalizer;
}

const Normalizer::Field& Normalizer::Get(std::string_view key) const {
  const auto found = fields_.find(key);
  if (found != fields_.end()) return found->second;
  std::vector<std::string> keys;
  for (const auto& [name, field] : fields_) keys.push_back(name);
  throw Error(ErrorCode::kData, fmt::format("the normalizer has no key '{}'; it has: {}", key,
                                            fmt::join(keys, ", ")));
}

}  // namespace dp_bench
