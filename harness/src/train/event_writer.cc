// POSIX calls and file names behind event_writer.h.
#include "train/event_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <system_error>

#include "core/atomic_file.h"
#include "core/console.h"
#include "core/system_error.h"
#include "dp_bench/error.h"
#include "media/png.h"
#include "train/event_proto.h"

namespace dp_bench::train {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr std::size_t kBufferBytes = std::size_t{64} << 10;

/// Seconds since 1970.
double WallTime() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

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
  auto seconds = static_cast<std::int64_t>(WallTime());
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    seconds = std::max(seconds, SecondsOf(it->path().filename().string()) + 1);
  }
  if (error) core::ThrowSystemError("list", folder, error);
  return seconds;
}

fs::path NewPath(const fs::path& folder) {
  static std::atomic<int> n_files = 0;
  return folder / fmt::format("{}{:010}.{}.{}.{}", kPrefix, SecondsForNewFile(folder), HostName(),
                              ::getpid(), n_files++);
}

}  // namespace

EventWriter::EventWriter(const fs::path& folder, std::int64_t resume_step) {
  core::CreateFolders(folder);
  path_ = NewPath(folder);
  descriptor_ = core::Uninterrupted([this] {
    return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  });
  if (descriptor_ < 0) core::ThrowErrno("create", path_);
  Append(FileVersionEvent(WallTime()));
  // also for a new run: TensorBoard's server treats only the second START of a folder as a restart
  Append(SessionStartEvent({WallTime(), resume_step}));
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
  Append(ScalarEvent({WallTime(), step}, tag, static_cast<float>(value)));
}

void EventWriter::AddHistogram(std::string_view tag, std::span<const float> values,
                               std::int64_t step) {
  Append(HistogramEvent({WallTime(), step}, tag, MakeHistogram(values)));
}

void EventWriter::AddImage(std::string_view tag, const RgbImage& image, std::int64_t step) {
  Append(ImageEvent({WallTime(), step}, tag, image.width, image.height, media::EncodePng(image)));
}

void EventWriter::AddText(std::string_view tag, std::string_view text, std::int64_t step) {
  Append(TextEvent({WallTime(), step}, tag, text));
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
