// .npy files: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "wire/value.h"

namespace dp_bench::wire {

/// Reads a whole file, version 1.0, 2.0 or 3.0. Its data stay where they are, in memory that
/// `owner` keeps; those in Fortran's order are copied. Throws Error{kData}.
NdArray ReadNpy(std::string_view file, const std::shared_ptr<const void>& owner);

/// What numpy.save writes before the data of an array in C order.
std::string NpyHeader(const NdArray& array);

}  // namespace dp_bench::wire
