// One event file of TensorBoard: TFRecords (tensorflow/core/lib/io/record_writer.h) of Event
// messages (tensorboard/compat/proto/event.proto).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "dp_bench/env.h"

namespace dp_bench::train {

/// The time of an event in seconds since 1970, and its step, the x axis of the curves.
struct EventTime {
  double wall_time = 0.0;
  std::int64_t step = 0;
};

// Event messages as TensorBoard defines them (event.proto, summary.proto). Strings
// are UTF-8. Each of the following functions returns the bytes of one message.

/// The first event of every file.
std::string FileVersionEvent(double wall_time);

/// SessionLog START: readers drop data of earlier files in the folder at `time.step` and beyond.
std::string SessionStartEvent(EventTime time);

std::string ScalarEvent(EventTime time, std::string_view tag, float value);

/// An RGB image as the bytes of a PNG file.
std::string ImageEvent(EventTime time, std::string_view tag, int width, int height,
                       std::string_view png);

/// Appends `data` as one record to `out`: TFRecord framing
/// (tensorflow/core/lib/io/record_writer.h), in which a reader detects damaged and incomplete
/// records. All numbers are little endian:
///   uint64 length | uint32 masked CRC-32C of length | data | uint32 masked CRC-32C of data
void AppendTfRecord(std::string_view data, std::string* out);

/// Appends to a new file. Events wait in a buffer of 64 KiB: a reader sees them after Flush, or
/// once the buffer is full. For one thread. Every file system error throws Error{kIo} with the
/// path. Unwritten events stay in the buffer, and the next Flush continues at the end of the file.
///
/// Tags are UTF-8; a "/" makes a group in TensorBoard. A step is a position on the x axis, such as
/// the `global_step` of a training.
class EventWriter {
 public:
  /// Creates `folder` if it is missing, and in it events.out.tfevents.<unix
  /// seconds>.<host>.<pid>.<n>. The name sorts after all event files there: TensorBoard reads them
  /// in that order. Begins a session at `resume_step`, the first step that the run will write; data
  /// of earlier files from that step on is hidden. A new run passes 0, a resumed run the step of
  /// its checkpoint.
  explicit EventWriter(const std::filesystem::path& folder, std::int64_t resume_step = 0);
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;
  /// Tries to flush; call Flush first to see errors.
  ~EventWriter();

  /// One point of a curve, stored as float32. TensorBoard shows NaN and infinities as such.
  void AddScalar(std::string_view tag, double value, std::int64_t step);

  /// An image, stored as PNG.
  void AddImage(std::string_view tag, const RgbImage& image, std::int64_t step);

  /// Writes all events to the file. Readers then see them even if this process is killed.
  void Flush();

  /// Makes everything flushed before the call survive a power cut, as a checkpoint requires of the
  /// log before it. Another thread may call it while this one adds events.
  void Sync() const;

  const std::filesystem::path& path() const { return path_; }

 private:
  void Append(std::string_view event);

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::string buffer_;  // whole records, minus the bytes that a failed Flush wrote of the first
};

}  // namespace dp_bench::train
