// The types of numbers that zarr arrays hold, their names in both versions of the format, and how
// they become the numbers of a dataset: float32, uint8 images, uint16 depth, int64 episode ends.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "dp_bench/array.h"

namespace dp_bench::zarr {

enum class ElementType : std::uint8_t {
  kBool,
  kInt8,
  kUInt8,
  kInt16,
  kUInt16,
  kInt32,
  kUInt32,
  kInt64,
  kUInt64,
  kFloat16,
  kFloat32,
  kFloat64
};

std::size_t SizeOf(ElementType type);

/// "uint8", "float32", ...: numpy's names, which are those of zarr v3.
std::string_view Name(ElementType type);

/// The inverse of `Name`.
std::optional<ElementType> ElementTypeNamed(std::string_view name);

/// The two characters of a zarr v2 dtype behind its byte order: "f4".
std::string_view ShortName(ElementType type);

/// The inverse of `ShortName`.
std::optional<ElementType> ElementTypeWithShortName(std::string_view name);

/// One element in the byte order of this machine; the bytes after it are 0.
using ElementBytes = std::array<std::byte, 8>;

/// A "fill_value" of either version: a number, true, "NaN", "-Infinity", "0x7fc00000". Nothing if
/// it is no value of this type, such as null.
std::optional<ElementBytes> ParseFillValue(const nlohmann::json& value, ElementType type);

/// Whether arrays of `type` can be converted to `target`: numbers of any type to kFloat32, images
/// of uint8 or float32 to kUInt8, depth of uint16 to kUInt16, and episode ends, integers, to
/// kInt64.
bool CanConvert(ElementType type, DType target);

/// Converts `n` elements. Returns the index of the first one that the target cannot hold: for
/// images a value that is not an integer within 0..255 (values after it are not converted), for
/// kFloat32 a whole number of an integer type that is not exact (data/reader/whole_numbers.h).
std::optional<std::int64_t> Convert(ElementType type, DType target, const std::byte* in,
                                    std::int64_t n, std::byte* out);

/// An element as text, for messages.
std::string ElementText(ElementType type, const std::byte* element);

}  // namespace dp_bench::zarr
