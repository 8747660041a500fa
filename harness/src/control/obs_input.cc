#include "control/obs_input.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "config/name.h"
#include "core/errors.h"
#include "core/visit_dtype.h"

namespace dp_bench {

Dims::Dims(std::initializer_list<std::int64_t> values)
    : Dims(std::span(values.begin(), values.size())) {}

Dims::Dims(std::span<const std::int64_t> values) : size_(values.size()) {
  if (values.size() > values_.size()) {
    throw ShapeError("an observation has {} dimensions, expected at most {}", values.size(),
                     values_.size());
  }
  std::ranges::copy(values, values_.begin());
}

namespace control {
namespace {

[[noreturn]] void ThrowShape(std::string_view key, const std::string& problem) {
  throw ShapeError("the observation '{}' {}", key, problem);
}

std::string Describe(const KeySpec& key, const Shape& shape) {
  return fmt::format("{} {} {}", key.name, Name(key.dtype), ToString(shape));
}

void RequireFit(const KeySpec& key, const Shape& shape, const ObsView& view) {
  if (view.dtype != key.dtype) {
    ThrowShape(key.name, fmt::format("is {}, expected {}", Name(view.dtype), Name(key.dtype)));
  }
  if (!std::ranges::equal(view.shape.values(), shape)) {
    const bool is_image = key.is_image();
    ThrowShape(
        key.name,
        fmt::format("has shape {}, expected {}{}", ToString(view.shape.values()), ToString(shape),
                    is_image ? ": [height, width, channels], whatever its strides" : ""));
  }
  const std::size_t n_strides = view.strides.values().size();
  if (n_strides != 0 && n_strides != shape.size()) {
    ThrowShape(key.name, fmt::format("has {} strides, expected {}, one for each dimension, or none",
                                     n_strides, shape.size()));
  }
  if (view.data == nullptr && key.ByteSize() > 0) {
    ThrowShape(key.name, "is a null pointer, expected the address of its first element");
  }
}

// Copies `shape` elements of type T in C order; returns the end of what was written.
template <class T>
std::byte* CopyElements(const std::byte* from, std::span<const std::int64_t> shape,
                        std::span<const std::int64_t> strides, std::byte* to) {
  if (shape.size() > 1) {
    for (std::int64_t i = 0; i < shape[0]; ++i) {
      to = CopyElements<T>(from + i * strides[0], shape.subspan(1), strides.subspan(1), to);
    }
    return to;
  }
  if (strides[0] == static_cast<std::int64_t>(sizeof(T))) {
    const auto n_bytes = static_cast<std::size_t>(shape[0]) * sizeof(T);
    std::memcpy(to, from, n_bytes);
    return to + n_bytes;
  }
  for (std::int64_t i = 0; i < shape[0]; ++i, to += sizeof(T)) {
    std::memcpy(to, from + i * strides[0], sizeof(T));
  }
  return to;
}

void CopyView(const ObsView& view, std::span<std::byte> to) {
  const auto* const from = static_cast<const std::byte*>(view.data);
  const std::span<const std::int64_t> shape = view.shape.values();
  const std::span<const std::int64_t> strides = view.strides.values();
  if (strides.empty()) {
    std::memcpy(to.data(), from, to.size());
    return;
  }
  core::VisitDType(view.dtype, [&]<class T>(T /*element*/) {
    CopyElements<T>(from, shape, strides, to.data());
  });
}

void RequireFinite(const KeySpec& key, std::span<const std::byte> bytes) {
  if (key.dtype != DType::kFloat32) return;
  const std::span values(reinterpret_cast<const float*>(bytes.data()),
                         bytes.size() / sizeof(float));
  const auto bad = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (bad == values.end()) return;
  throw NumericError("the observation '{}' is {} at element {}, expected finite numbers", key.name,
                     *bad, bad - values.begin());
}

}  // namespace

ObsInput::ObsInput(std::span<const KeySpec> keys) {
  for (const KeySpec& key : keys) {
    keys_.push_back({.spec = key, .shape = key.StorageShape(), .found = nullptr});
  }
}

void ObsInput::CopyTo(ObsHistory* history, std::span<const ObsView> obs) {
  Match(obs);
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    const std::span<std::byte> to = history->Next(static_cast<int>(i));
    CopyView(*keys_[i].found, to);
    RequireFinite(keys_[i].spec, to);
  }
}

void ObsInput::Match(std::span<const ObsView> obs) {
  for (Key& key : keys_) key.found = nullptr;
  for (const ObsView& view : obs) {
    const auto key = std::ranges::find_if(
        keys_, [&view](const Key& candidate) { return candidate.spec.name == view.key; });
    if (key == keys_.end()) ThrowUnknown(view.key);
    if (key->found != nullptr) ThrowShape(view.key, "is given twice");
    RequireFit(key->spec, key->shape, view);
    key->found = &view;
  }
  for (const Key& key : keys_) {
    if (key.found == nullptr) {
      ThrowShape(key.spec.name, "is missing. The policy reads: " + Wanted());
    }
  }
}

void ObsInput::ThrowUnknown(std::string_view name) const {
  std::vector<std::string> names;
  for (const Key& key : keys_) names.push_back(key.spec.name);
  ThrowShape(name, fmt::format("is not one that the policy reads{}. It reads: {}",
                               config::DidYouMean(name, names), Wanted()));
}

std::string ObsInput::Wanted() const {
  std::vector<std::string> keys;
  for (const Key& key : keys_) keys.push_back(Describe(key.spec, key.shape));
  return fmt::format("{}", fmt::join(keys, "; "));
}

}  // namespace control
}  // namespace dp_bench
