// Whole numbers that float32, the type of all numbers of a dataset, cannot hold. In arrays of
// integers they are indices, times or identifiers, whose neighbours would become equal: the readers
// refuse them. Numbers of float64 are rounded, as in every other program.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "dp_bench/error.h"

namespace dp_bench::reader {

/// Float32 holds all whole numbers up to 2^24, and larger ones with at most 24 significant bits.
inline constexpr std::uint32_t kAllExact = 1U << 24;

/// The index of the first value that float32 cannot hold. Costs nothing for 8 and 16 bits.
template <std::integral T>
std::optional<std::int64_t> FindInexact(std::span<const T> values) {
  if constexpr (sizeof(T) > 2) {
    using Bits = std::make_unsigned_t<T>;
    const auto magnitude = [](T value) {
      return value < 0 ? Bits{0} - static_cast<Bits>(value) : static_cast<Bits>(value);
    };
    Bits all = 0;  // without a branch, for vector instructions
    for (const T value : values) all |= magnitude(value);
    if (all < kAllExact) return std::nullopt;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Bits bits = magnitude(values[i]);
      if (bits >= kAllExact && (bits >> std::countr_zero(bits)) >= kAllExact) {
        return static_cast<std::int64_t>(i);
      }
    }
  }
  return std::nullopt;
}

/// Throws Error{kData}: the array at `where`, such as "a.zarr/data/time, step 5", holds `value`.
[[noreturn]] inline void RefuseInexact(const std::string& where, const std::string& value) {
  throw Error(ErrorCode::kData,
              fmt::format("{}: expected whole numbers that float32 holds exactly (all up to 2^24), "
                          "found {}. Store the difference from a first value, or float64 if it may "
                          "be rounded; or name the keys without this one in dataset.params.keys.",
                          where, value));
}

}  // namespace dp_bench::reader
