// numpy's names of types: kind and size, as in "<f4".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dp_bench::wire {

struct NumpyType {
  std::string name;      // "<f4"; "|u1" for one byte, whatever order the sender gave it
  char kind = 'f';       // b, i, u or f
  std::size_t size = 4;  // [bytes]
};

/// Throws Error{kData} for another kind or size, and for numbers that are not little endian.
NumpyType ParseNumpyType(std::string_view name);

}  // namespace dp_bench::wire
