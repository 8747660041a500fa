// Conversions between host arrays and LibTorch tensors, and the source of all randomness of a
// policy, row by row.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dp_bench/array.h"
#include "dp_bench/export.h"
#include "dp_bench/random.h"

namespace dp_bench {

using TensorMap = std::map<std::string, torch::Tensor, std::less<>>;

DPB_API torch::ScalarType ToScalarType(DType dtype);

/// Throws Error{kShape} for a dtype that host arrays do not have.
DPB_API DType ToDType(torch::ScalarType type);

/// Copies.
DPB_API torch::Tensor ToTensor(const Array& array);

/// Copies to host memory, contiguous.
DPB_API Array ToArray(const torch::Tensor& tensor);

/// Identifies one row's random streams, see RandomStream.
struct NoiseKey {
  std::uint64_t seed = 0;
  std::uint64_t major = 0;
  std::uint32_t minor = 0;
};

/// Random numbers for a batch, with an independent stream per row and purpose. The numbers of row i
/// depend only on its key and on earlier draws for the same purpose, never on other rows. Results
/// are CPU tensors.
class DPB_API NoiseSource {
 public:
  explicit NoiseSource(std::vector<NoiseKey> rows);

  std::int64_t batch_size() const { return static_cast<std::int64_t>(rows_.size()); }
  const std::vector<NoiseKey>& rows() const { return rows_; }

  /// N(0, 1), float32; shape[0] must be batch_size().
  torch::Tensor Randn(StreamId id, at::IntArrayRef shape);

  /// U[0, 1), float32; shape[0] must be batch_size().
  torch::Tensor Uniform(StreamId id, at::IntArrayRef shape);

  /// Uniform in {0, ..., bound - 1}, int64, [B].
  torch::Tensor RandInt(StreamId id, std::int64_t bound);

 private:
  std::vector<RandomStream>& Streams(StreamId id);

  std::vector<NoiseKey> rows_;
  std::map<StreamId, std::vector<RandomStream>> streams_;
};

}  // namespace dp_bench
