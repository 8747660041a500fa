#include "train/device_batch.h"

#include <algorithm>
#include <utility>

#include "core/device.h"

namespace dp_bench::train {
namespace {

constexpr int kPurposeShift = 56;  // a run has fewer than 2^56 steps

}  // namespace

Batch ToBatch(const data::HostBatch& host, const ShapeMeta& shape_meta, torch::Device device) {
  return {.obs = core::ObsToDevice(host.obs, shape_meta, device),
          .action = core::ToDevice(host.action, device),
          .is_pad = core::ToDevice(host.is_pad, device).to(torch::kBool)};
}

Batch FirstRows(const Batch& batch, std::int64_t n_rows) {
  const std::int64_t n = std::min(n_rows, batch.action.size(0));
  Batch rows;
  for (const auto& [key, value] : batch.obs) rows.obs[key] = value.slice(0, 0, n);
  rows.action = batch.action.slice(0, 0, n);
  rows.is_pad = batch.is_pad.slice(0, 0, n);
  return rows;
}

TensorMap ObservedSteps(const TensorMap& obs, std::int64_t n_obs_steps) {
  TensorMap observed;
  for (const auto& [key, value] : obs) observed[key] = value.slice(1, 0, n_obs_steps);
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

}  // namespace dp_bench::train
