#include "data/zarr/conversion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/half.h"
#include "dp_bench/error.h"

namespace dp_bench::zarr {
namespace {

template <class In, class Out>
void ConvertAll(const std::byte* in, std::int64_t n, std::byte* out) {
  const In* from = reinterpret_cast<const In*>(in);
  std::transform(from, from + n, reinterpret_cast<Out*>(out),
                 [](In value) { return static_cast<Out>(value); });
}

// The loop has no branch, so that the compiler can use vector instructions: out-of-range values and
// NaN are clamped, and found because they then differ from the result.
bool ConvertImageBlock(const float* in, std::int64_t n, std::uint8_t* out) {
  std::int32_t is_bad = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const float positive = in[i] > 0.0F ? in[i] : 0.0F;
    const float clamped = positive < 255.0F ? positive : 255.0F;
    const auto integer = static_cast<std::int32_t>(clamped);
    is_bad |= static_cast<std::int32_t>(static_cast<float>(integer) != in[i]);
    out[i] = static_cast<std::uint8_t>(integer);
  }
  return is_bad == 0;
}

std::optional<std::int64_t> ConvertImage(const float* in, std::int64_t n, std::uint8_t* out) {
  constexpr std::int64_t kBlock = 4096;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t size = std::min(kBlock, n - begin);
    if (ConvertImageBlock(in + begin, size, out + begin)) continue;
    for (std::int64_t i = begin;; ++i) {
      if (!ConvertImageBlock(in + i, 1, out + i)) return i;
    }
  }
  return std::nullopt;
}

template <class Out>
void ConvertHalves(const std::byte* in, std::int64_t n, std::byte* out) {
  const auto* from = reinterpret_cast<const std::uint16_t*>(in);
  std::transform(from, from + n, reinterpret_cast<Out*>(out),
                 [](std::uint16_t half) { return static_cast<Out>(core::FromFloat16(half)); });
}

template <class Out>
void ConvertNumbers(ElementType type, const std::byte* in, std::int64_t n, std::byte* out) {
  switch (type) {
    case ElementType::kBool:
    case ElementType::kUInt8:
      return ConvertAll<std::uint8_t, Out>(in, n, out);
    case ElementType::kInt8:
      return ConvertAll<std::int8_t, Out>(in, n, out);
    case ElementType::kInt16:
      return ConvertAll<std::int16_t, Out>(in, n, out);
    case ElementType::kUInt16:
      return ConvertAll<std::uint16_t, Out>(in, n, out);
    case ElementType::kInt32:
      return ConvertAll<std::int32_t, Out>(in, n, out);
    case ElementType::kUInt32:
      return ConvertAll<std::uint32_t, Out>(in, n, out);
    case ElementType::kInt64:
      return ConvertAll<std::int64_t, Out>(in, n, out);
    case ElementType::kUInt64:
      return ConvertAll<std::uint64_t, Out>(in, n, out);
    case ElementType::kFloat16:
      return ConvertHalves<Out>(in, n, out);
    case ElementType::kFloat32:
      return ConvertAll<float, Out>(in, n, out);
    case ElementType::kFloat64:
      return ConvertAll<double, Out>(in, n, out);
  }
}

template <class T>
std::string Text(const std::byte* element) {
  T value;
  std::memcpy(&value, element, sizeof(value));
  return fmt::format("{}", value);
}

}  // namespace

std::size_t TargetSize(Target target) {
  switch (target) {
    case Target::kFloat32:
      return sizeof(float);
    case Target::kImage:
      return 1;
    case Target::kDepth:
      return sizeof(std::uint16_t);
    case Target::kInt64:
      return sizeof(std::int64_t);
  }
  return 0;
}

bool CanConvert(ElementType type, Target target) {
  switch (target) {
    case Target::kFloat32:
      return true;
    case Target::kImage:
      return type == ElementType::kUInt8 || type == ElementType::kFloat32;
    case Target::kDepth:
      return type == ElementType::kUInt16;
    case Target::kInt64:
      return type != ElementType::kBool && ShortName(type).front() != 'f';
  }
  return false;
}

std::optional<std::int64_t> Convert(ElementType type, Target target, const std::byte* in,
                                    std::int64_t n, std::byte* out) {
  DPB_ASSERT(CanConvert(type, target));
  switch (target) {
    case Target::kFloat32:
      ConvertNumbers<float>(type, in, n, out);
      return std::nullopt;
    case Target::kInt64:
      ConvertNumbers<std::int64_t>(type, in, n, out);
      return std::nullopt;
    case Target::kImage:
    case Target::kDepth:
      break;
  }
  if (SizeOf(type) == TargetSize(target)) {  // bytes to bytes, depth to depth
    std::memcpy(out, in, static_cast<std::size_t>(n) * TargetSize(target));
    return std::nullopt;
  }
  return ConvertImage(reinterpret_cast<const float*>(in), n, reinterpret_cast<std::uint8_t*>(out));
}

std::string ElementText(ElementType type, const std::byte* element) {
  return type == ElementType::kUInt8 ? Text<std::uint8_t>(element) : Text<float>(element);
}

}  // namespace dp_bench::zarr
