// Conversions, and per-row randomness for a batch: row i draws from its own Philox streams into row
// i of the result, so no row depends on its neighbours.
#include "dp_bench/tensor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "core/errors.h"

namespace dp_bench {
namespace {

// Fills row i of a new [B, ...] tensor with draws from streams[i].
template <class T, class Draw>
torch::Tensor FillRows(std::vector<RandomStream>& streams, at::IntArrayRef shape,
                       torch::ScalarType dtype, const Draw& draw) {
  const auto batch_size = static_cast<std::int64_t>(streams.size());
  if (shape.empty() || shape[0] != batch_size) {
    throw ShapeError(
        "random numbers of shape {} were requested from a noise source of {} rows; the first size "
        "must be the number of rows",
        ToString(std::span(shape.data(), shape.size())), batch_size);
  }
  torch::Tensor result = torch::empty(shape, dtype);
  T* out = result.data_ptr<T>();
  const std::int64_t row_size = batch_size == 0 ? 0 : result.numel() / batch_size;
  for (RandomStream& stream : streams) {
    for (std::int64_t i = 0; i < row_size; ++i) *out++ = draw(stream);
  }
  return result;
}

// By DType.
constexpr std::array kScalarTypes = {torch::kUInt8, torch::kUInt16,  torch::kInt32,
                                     torch::kInt64, torch::kFloat32, torch::kFloat64};

}  // namespace

torch::ScalarType ToScalarType(DType dtype) {
  return kScalarTypes.at(static_cast<std::size_t>(dtype));
}

DType ToDType(torch::ScalarType type) {
  const auto* const found = std::ranges::find(kScalarTypes, type);
  if (found != kScalarTypes.end()) return static_cast<DType>(found - kScalarTypes.begin());
  throw ShapeError("host arrays do not know the dtype {}", torch::toString(type));
}

torch::Tensor ToTensor(const Array& array) {
  torch::Tensor tensor = torch::empty(array.shape(), ToScalarType(array.dtype()));
  std::memcpy(tensor.data_ptr(), array.bytes().data(), array.byte_size());
  return tensor;
}

Array ToArray(const torch::Tensor& tensor) {
  const torch::Tensor host = tensor.detach().to(torch::kCPU).contiguous();
  Array array(ToDType(host.scalar_type()), host.sizes().vec());
  std::memcpy(array.bytes().data(), host.data_ptr(), array.byte_size());
  return array;
}

NoiseSource::NoiseSource(std::vector<NoiseKey> rows) : rows_(std::move(rows)) {}

torch::Tensor NoiseSource::Randn(StreamId id, at::IntArrayRef shape) {
  return FillRows<float>(Streams(id), shape, torch::kFloat32,
                         [](RandomStream& stream) { return stream.Normal(); });
}

torch::Tensor NoiseSource::Uniform(StreamId id, at::IntArrayRef shape) {
  return FillRows<float>(Streams(id), shape, torch::kFloat32,
                         [](RandomStream& stream) { return stream.Uniform(); });
}

torch::Tensor NoiseSource::RandInt(StreamId id, std::int64_t bound) {
  if (bound < 1 || bound > std::numeric_limits<std::uint32_t>::max()) {
    throw InternalError("a random integer below {} was requested; the bound must lie in [1, 2^32)",
                        bound);
  }
  const auto bound32 = static_cast<std::uint32_t>(bound);
  return FillRows<std::int64_t>(Streams(id), {batch_size()}, torch::kInt64,
                                [bound32](RandomStream& stream) {
                                  return static_cast<std::int64_t>(stream.UniformInt(bound32));
                                });
}

std::vector<RandomStream>& NoiseSource::Streams(StreamId id) {
  std::vector<RandomStream>& streams = streams_[id];
  if (streams.empty()) {
    streams.reserve(rows_.size());
    for (const NoiseKey& row : rows_) streams.emplace_back(row.seed, id, row.major, row.minor);
  }
  return streams;
}

}  // namespace dp_bench
