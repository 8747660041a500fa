#include "serve/observations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "core/errors.h"
#include "core/half.h"
#include "media/resize.h"
#include "wire/shown.h"

namespace dp_bench::serve {
namespace {

constexpr std::size_t kMaxLeading = 2;  // rows and steps

// Calls `visit` with the path of each value that is no map. All paths are in one text in turn: a
// map with a long name and many values would otherwise cost their product.
using VisitLeaf = std::function<void(std::string_view path, const wire::Value& value)>;

void VisitLeaves(const wire::Map& map, std::string* path, const VisitLeaf& visit) {
  const std::size_t n_before = path->size();
  for (const auto& [name, value] : map.entries()) {
    *path += name;
    if (const auto* const inner = value.If<wire::Map>()) {
      *path += '/';
      VisitLeaves(*inner, path, visit);
    } else {
      visit(*path, value);
    }
    path->resize(n_before);
  }
}

// The paths of a message for an error, which shows the first ones.
class ClientPaths {
 public:
  void Add(std::string_view path) {
    if (shown_.size() < kMost) shown_.push_back(wire::Shown(path, kMostBytes));
    ++n_;
  }
  bool empty() const { return n_ == 0; }
  std::string ToText() const {
    return fmt::format("'{}'{}", fmt::join(shown_, "', '"),
                       n_ > kMost ? fmt::format(" and {} more", n_ - kMost) : "");
  }

 private:
  static constexpr std::size_t kMost = 8;
  static constexpr std::size_t kMostBytes = 80;  // of a path
  std::vector<std::string> shown_;
  std::size_t n_ = 0;
};

bool IsIgnored(const KeyMap& keys, std::string_view path) {
  return path == keys.instruction ||
         std::ranges::any_of(keys.ignored, [&](const std::string& ignored) {
           return path == ignored ||
                  (path.starts_with(ignored) && path.substr(ignored.size()).starts_with('/'));
         });
}

[[noreturn]] void ThrowMissing(const KeyMap& keys, const wire::Map& message,
                               const std::vector<std::string>& missing) {
  std::vector<std::string> wanted;
  ClientPaths found;
  std::string path;
  for (const InputKey& key : keys.obs) wanted.push_back(key.path);
  VisitLeaves(message, &path, [&](std::string_view leaf, const wire::Value&) { found.Add(leaf); });
  throw DataError("the observation has no '{}'; the policy needs '{}', found {}",
                  fmt::join(missing, "', '"), fmt::join(wanted, "', '"), found.ToText());
}

void RefuseUnknown(const KeyMap& keys, const wire::Map& message,
                   const std::set<const wire::Value*>& known) {
  ClientPaths unknown;
  std::string path;
  VisitLeaves(message, &path, [&](std::string_view leaf, const wire::Value& value) {
    if (!known.contains(&value) && !IsIgnored(keys, leaf)) unknown.Add(leaf);
  });
  if (unknown.empty()) return;
  std::vector<std::string> wanted;
  for (const InputKey& key : keys.obs) wanted.push_back(key.path);
  throw DataError(
      "the observation has {}, which the policy does not know; it reads '{}'. If it is not "
      "needed, list it under \"ignored\" in the file of --keys",
      unknown.ToText(), fmt::join(wanted, "', '"));
}

// The array's dimensions for one step.
Shape StepShape(const InputKey& key, const wire::NdArray& array) {
  Shape shape = key.MessageShape();
  if (key.first && !array.shape.empty()) shape.back() = array.shape.back();
  return shape;
}

template <class T, class Convert>
void ConvertTo(std::span<const std::byte> from, std::vector<float>* to, const Convert& convert) {
  for (std::size_t i = 0; i < to->size(); ++i) {
    T value;
    std::memcpy(&value, from.data() + i * sizeof(T), sizeof(T));
    (*to)[i] = convert(value);
  }
}

}  // namespace

Observations::Observations(const KeyMap& keys, const wire::Map& message) {
  std::set<const wire::Value*> known;
  std::vector<std::string> missing;
  std::vector<std::pair<const InputKey*, const wire::NdArray*>> arrays;
  for (const InputKey& key : keys.obs) {
    const wire::Value* const value = FindPath(message, key.path);
    if (value == nullptr) {
      missing.push_back(key.path);
      continue;
    }
    known.insert(value);
    const auto* const array = value->If<wire::NdArray>();
    if (array == nullptr) {
      throw DataError("'{}': expected an array, found {}", key.path, wire::Describe(*value));
    }
    arrays.emplace_back(&key, array);
  }
  if (!missing.empty()) ThrowMissing(keys, message, missing);
  RefuseUnknown(keys, message, known);
  for (const auto& [key, array] : arrays) keys_.push_back(Read(*key, *array));
}

// All arrays agree about rows and steps.
void Observations::TakeLeading(const InputKey& key, std::span<const std::int64_t> leading) {
  const std::size_t n_steps = leading.empty() ? 1 : static_cast<std::size_t>(leading.back());
  const std::size_t n_rows = leading.size() < 2 ? 1 : static_cast<std::size_t>(leading.front());
  if (n_steps == 0 || n_rows == 0) throw ShapeError("'{}' is empty", key.path);
  if (!std::exchange(has_leading_, true)) {
    n_steps_ = n_steps;
    n_rows_ = n_rows;
  } else if (n_steps != n_steps_ || n_rows != n_rows_) {
    throw ShapeError("'{}' has {} rows of {} steps, but another key has {} of {}", key.path, n_rows,
                     n_steps, n_rows_, n_steps_);
  }
}

Observations::Key Observations::Read(const InputKey& key, const wire::NdArray& array) {
  const Shape step = StepShape(key, array);
  const std::size_t n_leading = array.shape.size() - std::min(array.shape.size(), step.size());
  const auto fits = [&] {
    if (array.shape.size() < step.size() || n_leading > kMaxLeading) return false;
    if (key.first && *key.first + key.spec.shape.back() > step.back()) return false;
    return std::equal(step.begin(), step.end(),
                      array.shape.begin() + static_cast<std::ptrdiff_t>(n_leading));
  };
  if (!fits()) {
    throw ShapeError("'{}' has shape {}, expected {}{}", key.path, ToString(array.shape),
                     ToString(key.MessageShape()),
                     key.first ? fmt::format(" from number {} on", *key.first) : "");
  }
  TakeLeading(key, std::span(array.shape).first(n_leading));

  const std::byte* data = array.data.get();
  if (!key.spec.is_image()) {
    data = ToFloat32(key, array);
  } else if (wire::FromNumpyName(array.dtype) != key.spec.dtype) {
    throw ShapeError("'{}' is {}, expected {}", key.path, array.dtype,
                     wire::NumpyName(key.spec.dtype));
  }
  const auto item = static_cast<std::int64_t>(SizeOf(key.spec.dtype));
  data += key.first.value_or(0) * item;

  Shape strides(step.size(), item);
  for (std::size_t i = step.size(); i-- > 1;) strides[i - 1] = strides[i] * step[i];
  const auto step_bytes = static_cast<std::size_t>(NumElements(step) * item);
  if (key.is_channels_first) strides = {strides[1], strides[2], strides[0]};
  if (key.size) return Resized(key, data, strides, step_bytes);
  const Shape shape = key.spec.StorageShape();
  return {.key = &key,
          .data = data,
          .shape = Dims(shape),
          // without gaps it is copied in one piece
          .strides = key.is_channels_first || key.first ? Dims(strides) : Dims(),
          .step_bytes = step_bytes};
}

Observations::Key Observations::Resized(const InputKey& key, const std::byte* data,
                                        const Shape& strides, std::size_t step_bytes) {
  const Shape shape = key.spec.StorageShape();
  const std::size_t image_bytes = key.spec.ByteSize();
  std::vector<std::byte>& images = resized_.emplace_back(n_rows_ * n_steps_ * image_bytes);
  for (std::size_t i = 0; i < n_rows_ * n_steps_; ++i) {
    media::ResizeWithPad({.data = data + i * step_bytes,
                          .height = static_cast<int>((*key.size)[0]),
                          .width = static_cast<int>((*key.size)[1]),
                          .strides = {strides[0], strides[1], strides[2]}},
                         std::span(images).subspan(i * image_bytes, image_bytes),
                         static_cast<int>(shape[0]), static_cast<int>(shape[1]));
  }
  return {.key = &key,
          .data = images.data(),
          .shape = Dims(shape),
          .strides = Dims(),
          .step_bytes = image_bytes};
}

const std::byte* Observations::ToFloat32(const InputKey& key, const wire::NdArray& array) {
  if (array.dtype == "<f4") return array.data.get();
  std::vector<float>& numbers = converted_.emplace_back();
  numbers.resize(static_cast<std::size_t>(NumElements(array.shape)));
  if (array.dtype == "<f8") {
    ConvertTo<double>(array.bytes(), &numbers,
                      [](double value) { return static_cast<float>(value); });
  } else if (array.dtype == "<f2") {
    ConvertTo<std::uint16_t>(array.bytes(), &numbers, &core::FromFloat16);
  } else {
    throw ShapeError("'{}' is {}, expected <f4, <f8 or <f2", key.path, array.dtype);
  }
  return reinterpret_cast<const std::byte*>(numbers.data());
}

std::vector<ObsView> Observations::At(std::size_t row, std::size_t step) const {
  std::vector<ObsView> views;
  for (const Key& key : keys_) {
    views.emplace_back(key.key->spec.name, key.data + (row * n_steps_ + step) * key.step_bytes,
                       key.key->spec.dtype, key.shape, key.strides);
  }
  return views;
}

}  // namespace dp_bench::serve
