// Tensor views over host batches, and the keys of their noise.
#include "train/device_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "dp_bench/error.h"

namespace dp_bench {
namespace {

constexpr int kPurposeShift = 56;  // a run has fewer than 2^56 steps

torch::Tensor View(Array& array) {
  return torch::from_blob(array.bytes().data(), array.shape(), ToScalarType(array.dtype()));
}

}  // namespace

Batch ToBatch(HostBatch& host, const ShapeMeta& shape_meta, torch::Device device) {
  Batch batch;
  for (const KeySpec& key : shape_meta.obs) {
    torch::Tensor value = View(host.obs.find(key.name)->second).to(device);  // [B, To, storage]
    if (key.type != KeyType::kLowDim) value = value.permute({0, 1, 4, 2, 3});
    batch.obs[key.name] = value;
  }
  batch.action = View(host.action).to(device);
  batch.is_pad = View(host.is_pad).to(device).to(torch::kBool);
  return batch;
}

Batch FirstRows(const Batch& batch, std::int64_t n_rows) {
  const std::int64_t n = std::min(n_rows, batch.action.size(0));
  Batch rows;
  for (const auto& [key, value] : batch.obs) rows.obs[key] = value.slice(0, 0, n);
  rows.action = batch.action.slice(0, 0, n);
  rows.is_pad = batch.is_pad.slice(0, 0, n);
  return rows;
}

torch::Device ParseDevice(const std::string& name) {
  try {
    const torch::Device device(name);
    if (device.is_cpu()) return device;
    const int n_gpus = device.is_cuda() ? static_cast<int>(torch::cuda::device_count()) : 0;
    if (n_gpus > std::max<int>(device.index(), 0)) return device;
    throw Error(ErrorCode::kConfig,
                fmt::format("training.device is '{}', but this LibTorch finds {} CUDA devices. Use "
                            "training.device=cpu, or a LibTorch with CUDA and a working driver.",
                            name, n_gpus));
  } catch (const c10::Error&) {
    throw Error(ErrorCode::kConfig,
                fmt::format("training.device is '{}'; wanted 'cpu', 'cuda' or 'cuda:<n>'", name));
  }
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

}  // namespace dp_bench
