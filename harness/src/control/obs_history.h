// The last To observations of an episode: the window that a policy sees.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "control/chunk_planner.h"
#include "dp_bench/spec.h"

namespace dp_bench::control {

/// [n_rows, n_obs_steps, storage shape] of each key.
ObsBatch MakeObsBatch(std::span<const KeySpec> keys, int n_rows, int n_obs_steps);

/// Copies the only row of `from` to row `place` of a batch.
void CopyRow(const ObsBatch& from, std::size_t place, ObsBatch* obs);

/// Fills the rows of a batch behind the first `n_rows` with copies of the first.
void RepeatFirstRow(std::size_t n_rows, ObsBatch* obs);

/// A ring of n_obs_steps observations. Nothing allocates after construction.
class ObsHistory {
 public:
  ObsHistory(std::span<const KeySpec> keys, int n_obs_steps);

  /// The buffer for the next observation of key `key`, to be written before `Push`. It replaces the
  /// oldest one.
  std::span<std::byte> Next(int key);

  /// The observation in `Next` becomes the latest.
  void Push();

  /// The observation in `Next` becomes the whole window, as at the start of an episode.
  void PushAsFirst();

  /// Copies the windows of all keys, oldest first, to row `row` of a batch from MakeObsBatch.
  void CopyWindows(std::size_t row, ObsBatch* obs) const;

 private:
  std::span<std::byte> Frame(int key, int index);

  struct Ring {
    std::string key;
    std::size_t frame_bytes;
    std::vector<std::byte> frames;  // [n_obs_steps, frame_bytes]
  };

  int n_obs_steps_;
  int oldest_ = 0;  // also the one to overwrite
  std::vector<Ring> rings_;
};

}  // namespace dp_bench::control
