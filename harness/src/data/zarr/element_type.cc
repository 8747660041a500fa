#include "data/zarr/element_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <type_traits>
#include <utility>

#include "core/half.h"
#include "data/reader/whole_numbers.h"
#include "dp_bench/error.h"

namespace dp_bench::zarr {

namespace {

template <class T>
ElementBytes BytesOf(T value) {
  ElementBytes bytes = {};
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

// The bits of a float, "0x7fc00000"; the memory of this machine is little-endian.
std::optional<ElementBytes> ParseBits(std::string_view text, ElementType type) {
  std::uint64_t bits = 0;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data() + 2, end, bits, 16);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  if (text.size() != 2 + 2 * SizeOf(type)) return std::nullopt;
  return BytesOf(bits);
}

// Its bits.
struct Float16 {
  explicit operator float() const { return core::FromFloat16(bits); }
  explicit operator std::int64_t() const { return static_cast<std::int64_t>(float{*this}); }
  std::uint16_t bits;
};

// A number as a T, if T has it. Whole numbers for integers; zarr also writes 0.0 for them.
template <class T>
std::optional<ElementBytes> NumberBytes(const nlohmann::json& value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return BytesOf(core::ToFloat16(value.get<float>()));
  } else if constexpr (std::is_floating_point_v<T>) {
    return BytesOf(value.get<T>());
  } else {
    const auto if_in_range = [](auto number) -> std::optional<ElementBytes> {
      if (!std::in_range<T>(number)) return std::nullopt;
      return BytesOf(static_cast<T>(number));
    };
    if (value.is_number_unsigned()) return if_in_range(value.get<std::uint64_t>());
    if (value.is_number_integer()) return if_in_range(value.get<std::int64_t>());
    const double number = value.get<double>();
    constexpr double kExact = 9007199254740992.0;  // 2^53
    const bool is_whole = std::abs(number) <= kExact && number == std::floor(number);
    return is_whole ? if_in_range(static_cast<std::int64_t>(number)) : std::nullopt;
  }
}

// Returns the index of the first whole number that is not exact as an Out.
template <class In, class Out>
std::optional<std::int64_t> ConvertAll(const std::byte* in, std::int64_t n, std::byte* out) {
  const In* from = reinterpret_cast<const In*>(in);
  std::transform(from, from + n, reinterpret_cast<Out*>(out),
                 [](In value) { return static_cast<Out>(value); });
  if constexpr (std::is_integral_v<In> && std::is_same_v<Out, float>) {
    return reader::FindInexact(std::span(from, static_cast<std::size_t>(n)));
  } else {
    return std::nullopt;
  }
}

template <class T>
std::string Text(const std::byte* element) {
  T value;
  std::memcpy(&value, element, sizeof(value));
  if constexpr (std::is_same_v<T, Float16>) {
    return fmt::format("{}", static_cast<float>(value));
  } else {
    return fmt::format("{}", value);
  }
}

using ConvertFn = std::optional<std::int64_t> (*)(const std::byte* in, std::int64_t n,
                                                  std::byte* out);

struct ElementInfo {
  std::string_view name;
  std::string_view short_name;
  std::size_t size;
  ConvertFn to_float;
  ConvertFn to_int64;
  std::optional<ElementBytes> (*parse)(const nlohmann::json& number);
  std::string (*text)(const std::byte* element);
};

template <class T>
constexpr ElementInfo Info(std::string_view name, std::string_view short_name) {
  return {.name = name,
          .short_name = short_name,
          .size = sizeof(T),
          .to_float = &ConvertAll<T, float>,
          .to_int64 = &ConvertAll<T, std::int64_t>,
          .parse = &NumberBytes<T>,
          .text = &Text<T>};
}

// In the order of the enum.
constexpr std::array<ElementInfo, 12> kElements = {
    Info<std::uint8_t>("bool", "b1"),    Info<std::int8_t>("int8", "i1"),
    Info<std::uint8_t>("uint8", "u1"),   Info<std::int16_t>("int16", "i2"),
    Info<std::uint16_t>("uint16", "u2"), Info<std::int32_t>("int32", "i4"),
    Info<std::uint32_t>("uint32", "u4"), Info<std::int64_t>("int64", "i8"),
    Info<std::uint64_t>("uint64", "u8"), Info<Float16>("float16", "f2"),
    Info<float>("float32", "f4"),        Info<double>("float64", "f8")};

const ElementInfo& InfoOf(ElementType type) { return kElements[static_cast<std::size_t>(type)]; }

std::optional<ElementType> FindElementType(std::string_view ElementInfo::*field,
                                           std::string_view name) {
  const auto found = std::ranges::find(kElements, name, field);
  if (found == kElements.end()) return std::nullopt;
  return static_cast<ElementType>(found - kElements.begin());
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

}  // namespace

std::size_t SizeOf(ElementType type) { return InfoOf(type).size; }
std::string_view Name(ElementType type) { return InfoOf(type).name; }
std::string_view ShortName(ElementType type) { return InfoOf(type).short_name; }

std::optional<ElementType> ElementTypeNamed(std::string_view name) {
  return FindElementType(&ElementInfo::name, name);
}

std::optional<ElementType> ElementTypeWithShortName(std::string_view name) {
  return FindElementType(&ElementInfo::short_name, name);
}

std::optional<ElementBytes> ParseFillValue(const nlohmann::json& value, ElementType type) {
  if (value.is_boolean()) return ParseFillValue(value.get<bool>() ? 1U : 0U, type);
  if (value.is_number()) {
    if (type == ElementType::kBool && value != 0 && value != 1) return std::nullopt;
    return InfoOf(type).parse(value);
  }
  if (!value.is_string() || ShortName(type).front() != 'f') return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "NaN") return ParseFillValue(std::numeric_limits<double>::quiet_NaN(), type);
  if (text == "Infinity") return ParseFillValue(kInfinity, type);
  if (text == "-Infinity") return ParseFillValue(-kInfinity, type);
  return text.starts_with("0x") ? ParseBits(text, type) : std::nullopt;
}

bool CanConvert(ElementType type, DType target) {
  if (target == DType::kFloat32) return true;
  if (target == DType::kUInt16) return type == ElementType::kUInt16;
  if (target == DType::kInt64) return type != ElementType::kBool && ShortName(type)[0] != 'f';
  return type == ElementType::kUInt8 || type == ElementType::kFloat32;
}

std::optional<std::int64_t> Convert(ElementType type, DType target, const std::byte* in,
                                    std::int64_t n, std::byte* out) {
  DPB_ASSERT(CanConvert(type, target));
  if (target == DType::kFloat32 || target == DType::kInt64) {
    const ElementInfo& info = InfoOf(type);
    return (target == DType::kFloat32 ? info.to_float : info.to_int64)(in, n, out);
  }
  if (SizeOf(type) == SizeOf(target)) {  // bytes to bytes, depth to depth
    std::memcpy(out, in, static_cast<std::size_t>(n) * SizeOf(target));
    return std::nullopt;
  }
  return ConvertImage(reinterpret_cast<const float*>(in), n, reinterpret_cast<std::uint8_t*>(out));
}

std::string ElementText(ElementType type, const std::byte* element) {
  return InfoOf(type).text(element);
}

}  // namespace dp_bench::zarr
