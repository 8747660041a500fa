// Brings the checkpoints of a training to disk while the training goes on. Torch-free.
#pragma once

#include <functional>
#include <future>
#include <optional>
#include <string>

#include "run/store.h"

namespace dp_bench::train {

/// What one save does in the `checkpoints` folder, in this order.
struct CheckpointSave {
  std::optional<std::string> best = std::nullopt;  // written under this name
  std::optional<std::string> kept = std::nullopt;  // and under this one, to stay
  bool is_latest = true;                           // written as `latest`
  std::optional<std::string> remove = std::nullopt;
};

/// One save is in flight at most: the next one waits for it. So there is one copy of the training's
/// state and never more, whatever the disk does. The copy's memory is kept for the next save, which
/// then costs one pass over the tensors and no page fault.
///
/// All calls come from one thread. A fault of the thread that writes is thrown once, by the next
/// call; what was complete on disk before stays.
class CheckpointWriter {
 public:
  /// `store` must outlive the writer, and nobody else changes its folder while a save is in flight.
  /// `sync_log` makes durable what the saved state says of the log. It is called on the thread that
  /// writes, before any file of the checkpoint. Without `is_background`, Save returns when all is
  /// written, and keeps no memory.
  CheckpointWriter(run::CheckpointStore& store, bool is_background, std::function<void()> sync_log);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  /// Waits for the save in flight. A fault that was not thrown yet becomes a warning; call Finish
  /// to have it thrown.
  ~CheckpointWriter();

  /// Waits for the save in flight, calls `copy` and returns; the rest is done meanwhile. `copy`
  /// gets the contents of the save before, or empty ones, and replaces all of them with copies that
  /// share no memory with what the training changes.
  void Save(CheckpointSave save, const std::function<void(run::CheckpointContents*)>& copy);

  /// Throws the fault of a save that has ended; does not wait.
  void ThrowIfFailed();

  /// Waits for the save in flight.
  void Finish();

 private:
  void Write(const CheckpointSave& save);

  run::CheckpointStore& store_;
  bool is_background_;
  std::function<void()> sync_log_;
  run::CheckpointContents contents_;  // the writing thread's while a save is in flight
  std::future<void> in_flight_;
};

}  // namespace dp_bench::train
