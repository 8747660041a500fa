// Memory for one observation of an env.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dp_bench/env.h"

namespace dp_bench::plugin {

class ObsMemory {
 public:
  explicit ObsMemory(const EnvSpec& spec) : keys_(spec.shape_meta.obs) {
    memory_.reserve(keys_.size());
    for (const KeySpec& key : keys_) {
      buffers_.emplace_back(memory_.emplace_back(key.ByteSize()));
    }
  }
  ObsMemory(const ObsMemory&) = delete;
  ObsMemory& operator=(const ObsMemory&) = delete;

  /// Overwrites the observation with that of the env's current state.
  void Observe(Env& env) { env.Observe({keys_, buffers_}); }

  const std::vector<KeySpec>& keys() const { return keys_; }
  /// The observation of one key.
  std::span<const std::byte> operator[](std::size_t key) const { return buffers_[key]; }
  std::span<const std::span<std::byte>> buffers() const { return buffers_; }
  std::vector<std::span<const std::byte>> values() const {
    return {buffers_.begin(), buffers_.end()};
  }

 private:
  std::vector<KeySpec> keys_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::span<std::byte>> buffers_;  // of memory_, one per key
};

}  // namespace dp_bench::plugin
