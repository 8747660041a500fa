// From a dtype, which is known at run time, to the C++ type of its values. Header-only.
#pragma once

#include <cstdint>

#include "dp_bench/array.h"
#include "dp_bench/error.h"

namespace dp_bench::core {

/// `visit(T{})`, where T is the type of one value of an array of this dtype.
template <class Visit>
auto VisitDType(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::kUInt8:
      return visit(std::uint8_t{});
    case DType::kUInt16:
      return visit(std::uint16_t{});
    case DType::kInt32:
      return visit(std::int32_t{});
    case DType::kInt64:
      return visit(std::int64_t{});
    case DType::kFloat32:
      return visit(float{});
    case DType::kFloat64:
      break;
  }
  return visit(double{});
}

}  // namespace dp_bench::core
