// Arrays that are part of a received message: numpy's names of types, and the data.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "wire/value.h"

namespace dp_bench::wire {

inline constexpr std::size_t kMaxDimensions = 32;  // as in numpy 1

struct NumpyType {
  std::string name;      // "<f4"; "|u1" for one byte, whatever order the sender gave it
  char kind = 'f';       // b, i, u or f
  std::size_t size = 4;  // [bytes]
};

/// Throws Error{kData} for another kind or size, and for numbers that are not little endian.
NumpyType ParseNumpyType(std::string_view name);

/// The array whose data are exactly `data`, in memory that `owner` keeps. Throws Error{kData} if
/// the shape needs another number of bytes.
NdArray ArrayIn(std::string_view data, const NumpyType& type, Shape shape,
                const std::shared_ptr<const void>& owner);

}  // namespace dp_bench::wire
