// One event file of TensorBoard: TFRecords (tensorflow/core/lib/io/record_writer.h) of Event
// messages (tensorboard/compat/proto/event.proto).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "dp_bench/env.h"

namespace dp_bench::train {

/// Appends to a file that nobody wrote before. Events wait in a buffer of 64 KiB: a reader sees
/// them after Flush, or once the buffer is full. For one thread. Every fault of the file system
/// throws Error{kIo} with the path; what was not written stays in the buffer, and the next Flush
/// continues where the file ends.
///
/// Tags are UTF-8, and a "/" in one makes a group in TensorBoard. A step is the x axis of its
/// curve, such as the `global_step` of a training.
class EventWriter {
 public:
  /// Creates `folder` where it is missing, and in it
  /// events.out.tfevents.<unix seconds>.<host>.<pid>.<n>, whose name sorts behind all event files
  /// there: TensorBoard reads them in that order. Begins a session at `resume_step`, the first step
  /// that the run will write: it shadows all that earlier files hold from there on. A new run
  /// begins at 0, and a run that resumes where its checkpoint stood.
  explicit EventWriter(const std::filesystem::path& folder, std::int64_t resume_step = 0);
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;
  /// Flushes as well as it can; call Flush before to learn of errors.
  ~EventWriter();

  /// One point of a curve, kept as float32. TensorBoard shows NaN and infinities as such.
  void AddScalar(std::string_view tag, double value, std::int64_t step);

  /// The distribution of any number of values; for those that are not finite see
  /// tensorboard/histogram.h.
  void AddHistogram(std::string_view tag, std::span<const float> values, std::int64_t step);

  /// A picture, stored as PNG.
  void AddImage(std::string_view tag, const RgbImage& image, std::int64_t step);

  /// UTF-8 text, shown as Markdown.
  void AddText(std::string_view tag, std::string_view text, std::int64_t step);

  /// Hands all events to the file: whoever reads it sees them, also when this process is killed.
  void Flush();

  /// Makes what was flushed before the call survive a power cut: what a checkpoint needs of the log
  /// before it. Another thread may call it while this one adds events.
  void Sync() const;

  const std::filesystem::path& path() const { return path_; }

 private:
  void Append(std::string_view event);

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::string buffer_;  // whole records, less what a failed Flush wrote of the first
};

}  // namespace dp_bench::train
