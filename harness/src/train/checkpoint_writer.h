// Writes the checkpoints of a training to disk while the training continues. Torch-free.
#pragma once

#include <functional>
#include <future>
#include <optional>
#include <string>

#include "run/store.h"

namespace dp_bench::train {

/// The actions of one save in the `checkpoints` folder, in this order.
struct CheckpointSave {
  std::optional<std::string> best = std::nullopt;  // writes under this name
  std::optional<std::string> kept = std::nullopt;  // also writes under this name, and keeps it
  bool is_latest = true;                           // writes as `latest`
  std::optional<std::string> remove = std::nullopt;
};

/// At most one save is in flight: the next one waits for it. So there is never more than one copy
/// of the training's state, even on a slow disk. The copy's memory is reused for the next save,
/// which then costs one pass over the tensors and no page faults.
///
/// Call it from one thread. An error of the writing thread is thrown once, by the next call;
/// complete checkpoints on disk are kept.
class CheckpointWriter {
 public:
  /// `store` must outlive the writer, and its folder must not be changed by others while a save is
  /// in flight. `sync_log` makes the part of the log that the saved state refers to durable. The
  /// writing thread calls it before any file of the checkpoint. Without `is_background`, Save
  /// returns when everything is written, and keeps no memory.
  CheckpointWriter(run::CheckpointStore& store, bool is_background, std::function<void()> sync_log);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  /// Waits for the save in flight. An error that was not thrown yet becomes a warning; call Finish
  /// to get it as an exception.
  ~CheckpointWriter();

  /// Waits for the save in flight, calls `copy` and returns; the rest happens in the background.
  /// `copy` gets the contents of the previous save, or empty ones. It replaces all of them with
  /// copies that share no memory with the training.
  void Save(CheckpointSave save, const std::function<void(run::CheckpointContents*)>& copy);

  /// Throws the error of a finished save; does not wait.
  void ThrowIfFailed();

  /// Waits for the save in flight.
  void Finish();

 private:
  void Write(const CheckpointSave& save);

  run::CheckpointStore& store_;
  bool is_background_;
  std::function<void()> sync_log_;
  run::CheckpointContents contents_;  // belongs to the writing thread while a save is in flight
  std::future<void> in_flight_;
};

}  // namespace dp_bench::train
