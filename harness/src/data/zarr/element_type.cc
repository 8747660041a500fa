#include "data/zarr/element_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "core/half.h"
#include "dp_bench/error.h"

namespace dp_bench::zarr {

namespace {

struct ElementName {
  std::string_view name;
  std::string_view short_name;
  std::size_t size;
};

// in the order of the enum
constexpr std::array<ElementName, 12> kElementNames = {{{"bool", "b1", 1},
                                                        {"int8", "i1", 1},
                                                        {"uint8", "u1", 1},
                                                        {"int16", "i2", 2},
                                                        {"uint16", "u2", 2},
                                                        {"int32", "i4", 4},
                                                        {"uint32", "u4", 4},
                                                        {"int64", "i8", 8},
                                                        {"uint64", "u8", 8},
                                                        {"float16", "f2", 2},
                                                        {"float32", "f4", 4},
                                                        {"float64", "f8", 8}}};

const ElementName& NameOf(ElementType type) {
  return kElementNames[static_cast<std::size_t>(type)];
}

std::optional<ElementType> FindElementType(std::string_view ElementName::*field,
                                           std::string_view name) {
  const auto found = std::ranges::find(kElementNames, name, field);
  if (found == kElementNames.end()) return std::nullopt;
  return static_cast<ElementType>(found - kElementNames.begin());
}

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

std::optional<ElementBytes> FloatBytes(double value, ElementType type) {
  if (type == ElementType::kFloat16) return BytesOf(core::ToFloat16(static_cast<float>(value)));
  if (type == ElementType::kFloat32) return BytesOf(static_cast<float>(value));
  return BytesOf(value);
}

// Whole numbers only; zarr also writes 0.0 and false for integers.
std::optional<ElementBytes> IntegerBytes(const nlohmann::json& value, ElementType type) {
  const std::size_t n_bits = 8 * SizeOf(type);
  const bool is_signed = ShortName(type).front() == 'i';
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    const std::uint64_t max =
        std::numeric_limits<std::uint64_t>::max() >> (64 - n_bits + (is_signed ? 1 : 0));
    if (number > (type == ElementType::kBool ? 1 : max)) return std::nullopt;
    return BytesOf(number);
  }
  if (value.is_number_integer()) {
    const auto number = value.get<std::int64_t>();
    if (number >= 0) return IntegerBytes(nlohmann::json(static_cast<std::uint64_t>(number)), type);
    if (!is_signed || number < std::numeric_limits<std::int64_t>::min() >> (64 - n_bits)) {
      return std::nullopt;
    }
    ElementBytes bytes = BytesOf(number);
    std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(SizeOf(type)), bytes.end(), std::byte{0});
    return bytes;
  }
  const double number = value.get<double>();
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (!(std::abs(number) <= kExact) || number != std::floor(number)) return std::nullopt;
  const auto whole = static_cast<std::int64_t>(number);
  return whole < 0 ? IntegerBytes(nlohmann::json(whole), type)
                   : IntegerBytes(nlohmann::json(static_cast<std::uint64_t>(whole)), type);
}

}  // namespace

std::size_t SizeOf(ElementType type) { return NameOf(type).size; }
std::string_view Name(ElementType type) { return NameOf(type).name; }
std::string_view ShortName(ElementType type) { return NameOf(type).short_name; }

std::optional<ElementType> ElementTypeNamed(std::string_view name) {
  return FindElementType(&ElementName::name, name);
}

std::optional<ElementType> ElementTypeWithShortName(std::string_view name) {
  return FindElementType(&ElementName::short_name, name);
}

std::optional<ElementBytes> ParseFillValue(const nlohmann::json& value, ElementType type) {
  const bool is_float = ShortName(type).front() == 'f';
  if (value.is_boolean()) return ParseFillValue(value.get<bool>() ? 1U : 0U, type);
  if (value.is_number()) {
    return is_float ? FloatBytes(value.get<double>(), type) : IntegerBytes(value, type);
  }
  if (!value.is_string() || !is_float) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "NaN") return FloatBytes(std::numeric_limits<double>::quiet_NaN(), type);
  if (text == "Infinity") return FloatBytes(kInfinity, type);
  if (text == "-Infinity") return FloatBytes(-kInfinity, type);
  return text.starts_with("0x") ? ParseBits(text, type) : std::nullopt;
}

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

// Its bits.
struct Float16 {
  explicit operator float() const { return core::FromFloat16(bits); }
  explicit operator std::int64_t() const { return static_cast<std::int64_t>(float{*this}); }
  std::uint16_t bits;
};

// In the order of the enum.
template <class Out>
constexpr std::array kConversions = {
    &ConvertAll<std::uint8_t, Out>,  &ConvertAll<std::int8_t, Out>,
    &ConvertAll<std::uint8_t, Out>,  &ConvertAll<std::int16_t, Out>,
    &ConvertAll<std::uint16_t, Out>, &ConvertAll<std::int32_t, Out>,
    &ConvertAll<std::uint32_t, Out>, &ConvertAll<std::int64_t, Out>,
    &ConvertAll<std::uint64_t, Out>, &ConvertAll<Float16, Out>,
    &ConvertAll<float, Out>,         &ConvertAll<double, Out>};

template <class T>
std::string Text(const std::byte* element) {
  T value;
  std::memcpy(&value, element, sizeof(value));
  return fmt::format("{}", value);
}

}  // namespace

std::size_t TargetSize(Target target) {
  constexpr std::array<std::size_t, 4> kSizes = {sizeof(float), 1, sizeof(std::uint16_t),
                                                 sizeof(std::int64_t)};  // in the order of the enum
  return kSizes[static_cast<std::size_t>(target)];
}

bool CanConvert(ElementType type, Target target) {
  if (target == Target::kFloat32) return true;
  if (target == Target::kDepth) return type == ElementType::kUInt16;
  if (target == Target::kInt64) return type != ElementType::kBool && ShortName(type)[0] != 'f';
  return type == ElementType::kUInt8 || type == ElementType::kFloat32;
}

std::optional<std::int64_t> Convert(ElementType type, Target target, const std::byte* in,
                                    std::int64_t n, std::byte* out) {
  DPB_ASSERT(CanConvert(type, target));
  const auto index = static_cast<std::size_t>(type);
  if (target == Target::kFloat32) {
    kConversions<float>[index](in, n, out);
    return std::nullopt;
  }
  if (target == Target::kInt64) {
    kConversions<std::int64_t>[index](in, n, out);
    return std::nullopt;
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
