// POSIX calls and file names behind event_writer.h.
#include "train/event_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <charconv>
#include <system_error>

#include "core/atomic_file.h"
#include "core/clock.h"
#include "core/console.h"
#include "core/crc32c.h"
#include "core/proto_encoder.h"
#include "core/system_error.h"
#include "dp_bench/error.h"
#include "media/png.h"

namespace dp_bench::train {
namespace fs = std::filesystem;
namespace {

using core::ProtoEncoder;

namespace event_field {
constexpr int kWallTime = 1;
constexpr int kStep = 2;
constexpr int kFileVersion = 3;
constexpr int kSummary = 5;
constexpr int kSessionLog = 7;
}  // namespace event_field

namespace value_field {  // of Summary.Value
constexpr int kTag = 1;
constexpr int kSimpleValue = 2;
constexpr int kImage = 4;
}  // namespace value_field

constexpr std::int64_t kSessionStart = 1;
constexpr std::int64_t kColorspaceRgb = 3;

ProtoEncoder EventAt(EventTime time) {
  ProtoEncoder event;
  event.AddDouble(event_field::kWallTime, time.wall_time);
  event.AddInt64(event_field::kStep, time.step);
  return event;
}

ProtoEncoder ValueOf(std::string_view tag) {
  ProtoEncoder value;
  value.AddBytes(value_field::kTag, tag);
  return value;
}

// An Event with a Summary of one value.
std::string SummaryEvent(EventTime time, const ProtoEncoder& value) {
  ProtoEncoder summary;
  summary.AddMessage(1, value);
  ProtoEncoder event = EventAt(time);
  event.AddMessage(event_field::kSummary, summary);
  return event.Take();
}

// tensorflow/core/lib/hash/crc32c.h masks the CRC, because the CRC of bytes that contain their own
// CRC would be degenerate.
std::uint32_t MaskedCrc32c(std::string_view bytes) {
  return std::rotr(core::Crc32c(bytes), 15) + 0xA282EAD8;
}

constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr std::size_t kBufferBytes = std::size_t{64} << 10;

std::string HostName() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size()) == 0 ? name.data() : "localhost";
}

/// The seconds in the name of an event file; -1 for other files.
std::int64_t SecondsOf(const std::string& name) {
  std::int64_t seconds = -1;
  if (name.starts_with(kPrefix)) {
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), seconds);
  }
  return seconds;
}

/// Now, or one second after the newest event file: a run may resume within a second, or on a
/// machine with a slow clock.
std::int64_t SecondsForNewFile(const fs::path& folder) {
  auto seconds = static_cast<std::int64_t>(core::UnixTime());
  for (const fs::path& path : core::EntriesOf(folder)) {
    seconds = std::max(seconds, SecondsOf(path.filename().string()) + 1);
  }
  return seconds;
}

fs::path NewPath(const fs::path& folder) {
  static std::atomic<int> n_files = 0;
  return folder / fmt::format("{}{:010}.{}.{}.{}", kPrefix, SecondsForNewFile(folder), HostName(),
                              ::getpid(), n_files++);
}

}  // namespace

std::string FileVersionEvent(double wall_time) {
  ProtoEncoder event = EventAt({.wall_time = wall_time});
  event.AddBytes(event_field::kFileVersion, "brain.Event:2");
  return event.Take();
}

std::string SessionStartEvent(EventTime time) {
  ProtoEncoder session_log;
  session_log.AddInt64(1, kSessionStart);
  ProtoEncoder event = EventAt(time);
  event.AddMessage(event_field::kSessionLog, session_log);
  return event.Take();
}

std::string ScalarEvent(EventTime time, std::string_view tag, float value) {
  ProtoEncoder summary_value = ValueOf(tag);
  summary_value.AddFloat(value_field::kSimpleValue, value);
  return SummaryEvent(time, summary_value);
}

std::string ImageEvent(EventTime time, std::string_view tag, int width, int height,
                       std::string_view png) {
  ProtoEncoder image;
  image.AddInt64(1, height);
  image.AddInt64(2, width);
  image.AddInt64(3, kColorspaceRgb);
  image.AddBytes(4, png);
  ProtoEncoder value = ValueOf(tag);
  value.AddMessage(value_field::kImage, image);
  return SummaryEvent(time, value);
}

void AppendTfRecord(std::string_view data, std::string* out) {
  std::string length;
  core::AppendLittleEndian(std::uint64_t{data.size()}, &length);
  *out += length;
  core::AppendLittleEndian(MaskedCrc32c(length), out);
  *out += data;
  core::AppendLittleEndian(MaskedCrc32c(data), out);
}

EventWriter::EventWriter(const fs::path& folder, std::int64_t resume_step) {
  core::CreateFolders(folder);
  path_ = NewPath(folder);
  descriptor_ = core::Uninterrupted([this] {
    return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  });
  if (descriptor_ < 0) core::ThrowErrno("create", path_);
  Append(FileVersionEvent(core::UnixTime()));
  // also for a new run: TensorBoard's server treats only the second START of a folder as a restart
  Append(SessionStartEvent({core::UnixTime(), resume_step}));
}

EventWriter::~EventWriter() {
  try {
    Flush();
  } catch (const Error& error) {
    core::LogWarning(error.what());
  }
  ::close(descriptor_);
}

void EventWriter::AddScalar(std::string_view tag, double value, std::int64_t step) {
  Append(ScalarEvent({core::UnixTime(), step}, tag, static_cast<float>(value)));
}

void EventWriter::AddImage(std::string_view tag, const RgbImage& image, std::int64_t step) {
  Append(ImageEvent({core::UnixTime(), step}, tag, image.width, image.height,
                    media::EncodePng(image)));
}

void EventWriter::Append(std::string_view event) {
  // before adding the event: otherwise a full disk would make the buffer grow without limit
  if (buffer_.size() >= kBufferBytes) Flush();
  AppendTfRecord(event, &buffer_);
}

void EventWriter::Flush() {
  std::size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t written = core::Uninterrupted(
        [&] { return ::write(descriptor_, buffer_.data() + done, buffer_.size() - done); });
    if (written < 0) {
      const std::error_code error(errno, std::generic_category());
      buffer_.erase(0, done);  // the file has these; the next Flush continues after them
      core::ThrowSystemError("write", path_, error);
    }
    done += static_cast<std::size_t>(written);
  }
  buffer_.clear();
}

void EventWriter::Sync() const {
  if (core::Uninterrupted([this] { return ::fsync(descriptor_); }) != 0)
    core::ThrowErrno("fsync", path_);
  core::FsyncFolder(path_.parent_path());
}

}  // namespace dp_bench::train
