#include "data/convert.h"

#include <algorithm>

#include "dp_bench/error.h"

namespace dp_bench {
namespace {

template <class In, class Out>
void ConvertFrom(std::span<const std::byte> in, std::span<Out> out) {
  DPB_ASSERT(in.size() == out.size() * sizeof(In));
  const In* values = reinterpret_cast<const In*>(in.data());
  std::transform(values, values + out.size(), out.begin(),
                 [](In value) { return static_cast<Out>(value); });
}

template <class Out>
void Convert(DType from, std::span<const std::byte> in, std::span<Out> out) {
  switch (from) {
    case DType::kUInt8:
      return ConvertFrom<std::uint8_t>(in, out);
    case DType::kUInt16:
      return ConvertFrom<std::uint16_t>(in, out);
    case DType::kInt32:
      return ConvertFrom<std::int32_t>(in, out);
    case DType::kInt64:
      return ConvertFrom<std::int64_t>(in, out);
    case DType::kFloat32:
      return ConvertFrom<float>(in, out);
    case DType::kFloat64:
      return ConvertFrom<double>(in, out);
  }
}

}  // namespace

void ConvertElements(DType from, std::span<const std::byte> in, std::span<float> out) {
  Convert(from, in, out);
}

void ConvertElements(DType from, std::span<const std::byte> in, std::span<double> out) {
  Convert(from, in, out);
}

}  // namespace dp_bench
