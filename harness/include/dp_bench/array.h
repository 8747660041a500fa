// Dense host arrays in C order, which envs, datasets and checkpoints exchange. Does not include
// LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dp_bench/export.h"

namespace dp_bench {

enum class DType : std::uint8_t { kUInt8, kUInt16, kInt32, kInt64, kFloat32, kFloat64 };

DPB_API std::size_t SizeOf(DType dtype);

/// "uint8", "float32", ...
DPB_API std::string_view Name(DType dtype);

/// The inverse of `Name`; throws Error{kShape} for anything else.
DPB_API DType ParseDType(std::string_view name);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::kUInt8;
};
template <>
struct DTypeOf<std::uint16_t> {
  static constexpr DType value = DType::kUInt16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::kInt32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::kInt64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kFloat32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kFloat64;
};

using Shape = std::vector<std::int64_t>;

/// The product of the sizes. Throws Error{kShape} if a size is negative or the product does not fit
/// in int64.
DPB_API std::int64_t NumElements(std::span<const std::int64_t> shape);

/// "[2, 96, 96, 3]"
DPB_API std::string ToString(std::span<const std::int64_t> shape);

/// An owned, zero-initialised array whose data are aligned to 64 bytes.
class DPB_API Array {
 public:
  Array() = default;
  Array(DType dtype, Shape shape);
  Array(const Array& other);
  Array(Array&& other) noexcept;
  Array& operator=(const Array& other);
  Array& operator=(Array&& other) noexcept;
  ~Array();

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::int64_t size() const { return size_; }  // number of elements
  std::size_t byte_size() const { return static_cast<std::size_t>(size_) * SizeOf(dtype_); }

  std::span<std::byte> bytes() { return {data_, byte_size()}; }
  std::span<const std::byte> bytes() const { return {data_, byte_size()}; }

  /// A typed view of all elements. Throws Error{kShape} if T is not the dtype of the array.
  template <class T>
  std::span<T> as() {
    RequireDType(DTypeOf<T>::value);
    return {reinterpret_cast<T*>(data_), static_cast<std::size_t>(size_)};
  }
  template <class T>
  std::span<const T> as() const {
    RequireDType(DTypeOf<T>::value);
    return {reinterpret_cast<const T*>(data_), static_cast<std::size_t>(size_)};
  }

 private:
  void RequireDType(DType wanted) const;

  DType dtype_ = DType::kFloat32;
  Shape shape_ = {0};
  std::int64_t size_ = 0;
  std::byte* data_ = nullptr;
};

using ArrayMap = std::map<std::string, Array, std::less<>>;

}  // namespace dp_bench
