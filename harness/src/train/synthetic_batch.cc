// See synthetic_batch.h. One random stream per key and row.
#include "train/synthetic_batch.h"

#include <fmt/format.h>

#include <cstddef>
#include <span>

#include "core/random_streams.h"
#include "dp_bench/error.h"

namespace dp_bench::train {
namespace {

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
    throw Error(ErrorCode::kConfig,
                fmt::format("cannot draw random {} values of dtype {} for '{}'; expected float32 "
                            "for low_dim, uint8 for rgb, uint16 or float32 for depth",
                            Name(spec.type), Name(spec.dtype), spec.name));
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
  return batch;
}

}  // namespace

data::HostBatch SyntheticBatch(const PolicySpec& spec, std::int64_t n_rows) {
  return DrawBatch(spec, n_rows, spec.horizons.n_obs_steps);
}

data::HostBatch SyntheticBatch(const Policy& policy, std::int64_t n_rows) {
  return DrawBatch(policy.spec(), n_rows, policy.n_train_obs_steps());
}

}  // namespace dp_bench::train
