// Memory that shows what a plugin does to the buffers it is given to fill: guard bytes around every
// buffer, and a pattern in it that stays only where the plugin writes nothing.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dp_bench/spec.h"

namespace dp_bench::plugin {

/// The buffers of some keys: the observations of an env, or the action of its expert. Numbers
/// (low_dim) are checked every time. Images are checked once after each `StartEpisode`, because
/// filling and copying them takes time; only NaN and Inf in float32 depth are found every time.
/// Allocates nothing after its construction.
class BufferGuard {
 public:
  /// `keys` must outlive the guard.
  explicit BufferGuard(std::span<const KeySpec> keys);
  BufferGuard(const BufferGuard&) = delete;
  BufferGuard& operator=(const BufferGuard&) = delete;

  void StartEpisode() { checks_images_ = true; }

  /// Where the plugin writes: one buffer per key. The spans in it change with `Prepare`.
  std::span<const std::span<std::byte>> buffers() const { return offered_; }

  /// Prepares the buffers for a call of the plugin. `out`: where the results go afterwards.
  void Prepare(std::span<const std::span<std::byte>> out);

  /// Copies what the plugin wrote to `out`. Throws Error{kPlugin} naming the key if it wrote
  /// outside a buffer or left elements unwritten, Error{kNumeric} for NaN and Inf.
  void Finish(std::span<const std::span<std::byte>> out);

 private:
  bool IsChecked(std::size_t key) const { return !keys_[key].is_image() || checks_images_; }
  void RequireGuardBytes(std::size_t key);
  void FillGuardBytes();

  std::span<const KeySpec> keys_;
  std::vector<std::byte> memory_;
  std::vector<std::span<std::byte>> own_;      // of memory_, one per key
  std::vector<std::span<std::byte>> offered_;  // to the plugin
  bool checks_images_ = true;
};

}  // namespace dp_bench::plugin
