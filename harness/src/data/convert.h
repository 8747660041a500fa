// Numbers of any dtype as float32 or float64, at the edge between datasets and the harness.
#pragma once

#include <cstddef>
#include <span>

#include "dp_bench/array.h"

namespace dp_bench {

/// Converts `in` (elements of `from`, in any alignment that suits them) to `out`, one to one.
/// Integers beyond 2^24 are rounded to the nearest float32. The sizes must agree.
void ConvertElements(DType from, std::span<const std::byte> in, std::span<float> out);
void ConvertElements(DType from, std::span<const std::byte> in, std::span<double> out);

}  // namespace dp_bench
