// The observations in a client's message, checked.
#pragma once

#include <cstddef>
#include <list>
#include <span>
#include <vector>

#include "dp_bench/deploy.h"
#include "serve/key_map.h"
#include "wire/value.h"

namespace dp_bench::serve {

/// Arrays may have up to two more dimensions than their key: [T, ...] steps, oldest first, or [B,
/// T, ...] rows of steps. All keys have the same.
class Observations {
 public:
  /// Throws Error{kData} naming the keys that are missing or unknown, and Error{kShape} for another
  /// shape or dtype. Images whose key has a size are resized. low_dim may be <f2, <f4 or <f8 and is
  /// rounded to float32; images keep their type. `message` must outlive this object.
  Observations(const KeyMap& keys, const wire::Map& message);
  Observations(Observations&&) = default;
  Observations(const Observations&) = delete;

  std::size_t n_rows() const { return n_rows_; }    // B
  std::size_t n_steps() const { return n_steps_; }  // T

  /// All keys at one step of one row.
  std::vector<ObsView> At(std::size_t row, std::size_t step) const;

 private:
  struct Key {
    const InputKey* key;
    const std::byte* data;
    Dims shape;                  // of a step, in storage order
    Dims strides;                // [bytes]
    std::size_t step_bytes = 0;  // from one step to the next
  };

  Key Read(const InputKey& key, const wire::NdArray& array);
  void TakeLeading(const InputKey& key, std::span<const std::int64_t> leading);
  Key Resized(const InputKey& key, const std::byte* data, const Shape& strides,
              std::size_t step_bytes);
  const std::byte* ToFloat32(const InputKey& key, const wire::NdArray& array);

  std::size_t n_rows_ = 1;
  std::size_t n_steps_ = 1;
  bool has_leading_ = false;  // known from the first key
  std::vector<Key> keys_;
  std::list<std::vector<float>> converted_;
  std::list<std::vector<std::byte>> resized_;
};

}  // namespace dp_bench::serve
