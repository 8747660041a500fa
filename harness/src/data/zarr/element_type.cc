#include "data/zarr/element_type.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "core/half.h"

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

}  // namespace dp_bench::zarr
