// The last To observations of an episode: the window that a policy looks at.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dp_bench/spec.h"

namespace dp_bench {

/// A ring of n_obs_steps observations. Nothing allocates after construction.
class ObsHistory {
 public:
  ObsHistory(std::span<const KeySpec> keys, int n_obs_steps);

  /// Where the next observation of key `key` is to be written, before `Push`. Overwrites the
  /// oldest.
  std::span<std::byte> Next(int key);

  /// The observation in `Next` becomes the latest.
  void Push();

  /// The observation in `Next` becomes the whole window, as at the start of an episode.
  void PushAsFirst();

  /// The window of one key, oldest first: n_obs_steps * KeySpec::ByteSize() bytes.
  void CopyWindow(int key, std::span<std::byte> out) const;

 private:
  std::span<std::byte> Frame(int key, int index);
  std::span<const std::byte> Frame(int key, int index) const;

  struct Ring {
    std::size_t frame_bytes;
    std::vector<std::byte> frames;  // [n_obs_steps, frame_bytes]
  };

  int n_obs_steps_;
  int oldest_ = 0;  // also the one to overwrite
  std::vector<Ring> rings_;
};

}  // namespace dp_bench
