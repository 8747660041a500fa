#include "dp_bench/array.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "core/errors.h"

namespace dp_bench {
namespace {

constexpr std::align_val_t kAlignment{64};

std::byte* Allocate(std::size_t byte_size) {
  if (byte_size == 0) return nullptr;
  return static_cast<std::byte*>(::operator new(byte_size, kAlignment));
}

struct DTypeInfo {
  std::string_view name;
  std::size_t size;  // of a value
};
// by DType
constexpr std::array<DTypeInfo, 6> kDTypes = {
    {{"uint8", 1}, {"uint16", 2}, {"int32", 4}, {"int64", 8}, {"float32", 4}, {"float64", 8}}};

DTypeInfo InfoOf(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  return index < kDTypes.size() ? kDTypes[index] : DTypeInfo{"?", 0};
}

}  // namespace

std::size_t SizeOf(DType dtype) { return InfoOf(dtype).size; }

std::string_view Name(DType dtype) { return InfoOf(dtype).name; }

DType ParseDType(std::string_view name) {
  const auto* const found = std::ranges::find(kDTypes, name, &DTypeInfo::name);
  if (found != kDTypes.end()) return static_cast<DType>(found - kDTypes.begin());
  throw ShapeError("unknown dtype '{}'; known: uint8, uint16, int32, int64, float32, float64",
                   name);
}

std::int64_t NumElements(std::span<const std::int64_t> shape) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(product, size, &product)) {
      throw ShapeError("impossible shape {}", ToString(shape));
    }
  }
  return product;
}

std::string ToString(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

Array::Array(DType dtype, Shape shape)
    : dtype_(dtype), shape_(std::move(shape)), size_(NumElements(shape_)) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(size_, static_cast<std::int64_t>(SizeOf(dtype_)), &bytes)) {
    throw ShapeError("impossible shape {}", ToString(shape_));
  }
  data_ = Allocate(byte_size());
  std::fill_n(data_, byte_size(), std::byte{0});
}

Array::Array(const Array& other) : dtype_(other.dtype_), shape_(other.shape_), size_(other.size_) {
  data_ = Allocate(byte_size());
  std::copy_n(other.data_, byte_size(), data_);
}

Array::Array(Array&& other) noexcept
    : dtype_(other.dtype_),
      shape_(std::exchange(other.shape_, {0})),
      size_(std::exchange(other.size_, 0)),
      data_(std::exchange(other.data_, nullptr)) {}

Array& Array::operator=(const Array& other) {
  if (this != &other) *this = Array(other);
  return *this;
}

Array& Array::operator=(Array&& other) noexcept {
  std::swap(dtype_, other.dtype_);
  std::swap(shape_, other.shape_);
  std::swap(size_, other.size_);
  std::swap(data_, other.data_);
  return *this;
}

Array::~Array() {
  if (data_ != nullptr) ::operator delete(data_, kAlignment);
}

void Array::RequireDType(DType wanted) const {
  if (wanted != dtype_) {
    throw ShapeError("array of {} {} read as {}", Name(dtype_), ToString(shape_), Name(wanted));
  }
}

}  // namespace dp_bench
