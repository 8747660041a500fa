// Each save behind train/checkpoint_writer.h is a std::async task. Saves are seconds apart, and the
// future already carries errors from one thread to the other.
#include "train/checkpoint_writer.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <utility>

#include "core/console.h"
#include "dp_bench/error.h"

namespace dp_bench::train {

CheckpointWriter::CheckpointWriter(run::CheckpointStore& store, bool is_background,
                                   std::function<void()> sync_log)
    : store_(store), is_background_(is_background), sync_log_(std::move(sync_log)) {}

CheckpointWriter::~CheckpointWriter() {
  try {
    Finish();
  } catch (const std::exception& error) {
    core::LogWarning(error.what());
  }
}

void CheckpointWriter::Save(CheckpointSave save,
                            const std::function<void(run::CheckpointContents*)>& copy) {
  Finish();
  copy(&contents_);
  if (is_background_) {
    in_flight_ = std::async(std::launch::async, [this, save = std::move(save)] { Write(save); });
  } else {
    Write(save);
    contents_ = {};
  }
}

void CheckpointWriter::ThrowIfFailed() {
  const bool has_ended = in_flight_.valid() &&
                         in_flight_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  if (has_ended) in_flight_.get();
}

void CheckpointWriter::Finish() {
  if (in_flight_.valid()) in_flight_.get();
}

void CheckpointWriter::Write(const CheckpointSave& save) {
  try {
    sync_log_();
    // after any crash, each checkpoint in the newest table exists
    if (save.best) store_.Save(*save.best, contents_);
    if (save.kept) store_.Save(*save.kept, contents_);
    if (save.is_latest) store_.Save(run::kLatest, contents_);
    if (save.remove) store_.Remove(*save.remove);
  } catch (Error& error) {
    // the training may have advanced far since it started this save
    error.AddContext(
        fmt::format("while a checkpoint was saved in '{}'; the complete ones there "
                    "are kept, --resume continues from the last of them",
                    store_.folder().string()));
    throw;
  }
}

}  // namespace dp_bench::train
