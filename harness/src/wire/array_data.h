// The data of arrays that are part of a received message.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "wire/dtype.h"
#include "wire/value.h"

namespace dp_bench::wire {

inline constexpr std::size_t kMaxDimensions = 32;  // as in numpy 1

/// The array whose data are exactly `data`, in memory that `owner` keeps. Throws Error{kData} if
/// the shape needs another number of bytes.
NdArray ArrayIn(std::string_view data, const NumpyType& type, Shape shape,
                const std::shared_ptr<const void>& owner);

}  // namespace dp_bench::wire
