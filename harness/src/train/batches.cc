// See batches.h. Random numbers have one stream per key and row.
#include "train/batches.h"

#include <cstddef>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "core/errors.h"
#include "core/random_streams.h"
#include "policy/device.h"

namespace dp_bench::train {
namespace {

constexpr int kPurposeShift = 56;  // a run has fewer than 2^56 steps

constexpr std::uint64_t kSeed = 0;
constexpr float kFarthest = 2.0F;            // [m]
constexpr std::uint32_t kFarthestMm = 2000;  // [mm]

// Fills row i of `array` with draws from the stream of key number `key` and row i.
template <class T, class Draw>
void FillRows(Array* array, std::size_t key, const Draw& draw) {
  const std::span<T> values = array->as<T>();
  const auto n_rows = static_cast<std::size_t>(array->shape()[0]);
  const std::size_t row_size = values.size() / n_rows;
  for (std::size_t row = 0; row < n_rows; ++row) {
    RandomStream stream(kSeed, core::kInitStream, key, static_cast<std::uint32_t>(row));
    for (T& value : values.subspan(row * row_size, row_size)) value = draw(stream);
  }
}

// [B, n_steps, storage shape]
Array Draw(const KeySpec& spec, std::size_t key, std::int64_t n_rows, std::int64_t n_steps) {
  Shape shape = {n_rows, n_steps};
  const Shape storage = spec.StorageShape();
  shape.insert(shape.end(), storage.begin(), storage.end());
  Array array(spec.dtype, shape);
  const bool is_depth = spec.type == KeyType::kDepth;
  if (spec.dtype == DType::kUInt8) {
    FillRows<std::uint8_t>(&array, key, [](RandomStream& stream) {
      return static_cast<std::uint8_t>(stream.UniformInt(256));
    });
  } else if (spec.dtype == DType::kUInt16 && is_depth) {
    FillRows<std::uint16_t>(&array, key, [](RandomStream& stream) {
      return static_cast<std::uint16_t>(stream.UniformInt(kFarthestMm + 1));
    });
  } else if (spec.dtype == DType::kFloat32 && is_depth) {
    FillRows<float>(&array, key, [](RandomStream& stream) { return kFarthest * stream.Uniform(); });
  } else if (spec.dtype == DType::kFloat32) {
    FillRows<float>(&array, key, [](RandomStream& stream) { return stream.Normal(); });
  } else {
    throw ConfigError(
        "cannot draw random {} values of dtype {} for '{}'; expected float32 for low_dim, uint8 "
        "for rgb, uint16 or float32 for depth",
        Name(spec.type), Name(spec.dtype), spec.name);
  }
  return array;
}

data::HostBatch DrawBatch(const PolicySpec& spec, std::int64_t n_rows, std::int64_t n_obs_steps) {
  DPB_ASSERT(n_rows > 0);
  data::HostBatch batch;
  std::size_t key = 0;
  for (const KeySpec& obs : spec.shape_meta.obs) {
    batch.obs[obs.name] = Draw(obs, key++, n_rows, n_obs_steps);
  }
  batch.action = Draw(spec.shape_meta.action, key, n_rows, spec.horizons.horizon);
  batch.is_pad = Array(DType::kUInt8, {n_rows, spec.horizons.horizon});
  batch.indices.resize(static_cast<std::size_t>(n_rows));
  std::iota(batch.indices.begin(), batch.indices.end(), 0);
  return batch;
}

}  // namespace

data::BatchLoaderOptions LoaderOptions(const Policy& policy, const DataLoaderConfig& config) {
  data::BatchLoaderOptions options = {.batch_size = config.batch_size,
                                      .shuffle = config.shuffle,
                                      .n_obs_steps = policy.n_train_obs_steps(),
                                      .n_threads = config.num_workers};
  for (const KeySpec& key : policy.spec().shape_meta.obs) options.keys.push_back(key.name);
  return options;
}

Batch ToBatch(const data::HostBatch& host, const ShapeMeta& shape_meta, torch::Device device) {
  return {.obs = policy::ObsToDevice(host.obs, shape_meta, device),
          .action = policy::ToDevice(host.action, device),
          .is_pad = policy::ToDevice(host.is_pad, device).to(torch::kBool)};
}

TensorMap ObservedSteps(const TensorMap& obs, std::int64_t n_obs_steps, std::int64_t first) {
  TensorMap observed;
  for (const auto& [key, value] : obs) {
    observed[key] = value.slice(1, first, first + n_obs_steps);
  }
  return observed;
}

NoiseSource BatchNoise(std::uint64_t seed, NoisePurpose purpose, std::uint64_t number,
                       std::int64_t n_rows, std::int64_t first_row) {
  const std::uint64_t major = (static_cast<std::uint64_t>(purpose) << kPurposeShift) | number;
  std::vector<NoiseKey> rows;
  rows.reserve(static_cast<std::size_t>(n_rows));
  for (std::int64_t row = first_row; row < first_row + n_rows; ++row) {
    rows.push_back({.seed = seed, .major = major, .minor = static_cast<std::uint32_t>(row)});
  }
  return NoiseSource(std::move(rows));
}

data::HostBatch SyntheticBatch(const PolicySpec& spec, std::int64_t n_rows) {
  return DrawBatch(spec, n_rows, spec.horizons.n_obs_steps);
}

data::HostBatch SyntheticBatch(const Policy& policy, std::int64_t n_rows) {
  return DrawBatch(policy.spec(), n_rows, policy.n_train_obs_steps());
}

}  // namespace dp_bench::train
