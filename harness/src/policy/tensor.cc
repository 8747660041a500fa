#include "dp_bench/tensor.h"

#include <cstring>

#include "dp_bench/error.h"

namespace dp_bench {

torch::ScalarType ToScalarType(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return torch::kUInt8;
    case DType::kUInt16:
      return torch::kUInt16;
    case DType::kInt32:
      return torch::kInt32;
    case DType::kInt64:
      return torch::kInt64;
    case DType::kFloat32:
      return torch::kFloat32;
    case DType::kFloat64:
      return torch::kFloat64;
  }
  throw Error(ErrorCode::kInternal, "unknown dtype");
}

DType ToDType(torch::ScalarType type) {
  for (const DType dtype : {DType::kUInt8, DType::kUInt16, DType::kInt32, DType::kInt64,
                            DType::kFloat32, DType::kFloat64}) {
    if (ToScalarType(dtype) == type) return dtype;
  }
  throw Error(ErrorCode::kShape,
              std::string("host arrays do not know the dtype ") + torch::toString(type));
}

torch::Tensor ToTensor(const Array& array) {
  torch::Tensor tensor = torch::empty(array.shape(), ToScalarType(array.dtype()));
  std::memcpy(tensor.data_ptr(), array.bytes().data(), array.byte_size());
  return tensor;
}

Array ToArray(const torch::Tensor& tensor) {
  const torch::Tensor host = tensor.detach().to(torch::kCPU).contiguous();
  Array array(ToDType(host.scalar_type()), host.sizes().vec());
  std::memcpy(array.bytes().data(), host.data_ptr(), array.byte_size());
  return array;
}

}  // namespace dp_bench
