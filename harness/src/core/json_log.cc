// The POSIX calls behind core/json_log.h.
#include "core/json_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "core/atomic_file.h"
#include "core/errors.h"

namespace dp_bench::core {

// Without O_NONBLOCK, opening a pipe would wait for a reader.
JsonLog::JsonLog(std::filesystem::path path, std::int64_t position)
    : path_(std::move(path)), descriptor_(Uninterrupted([this] {
        return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
      })) {
  const int descriptor = descriptor_.value();
  const bool has_no_reader = descriptor < 0 && errno == ENXIO;  // a pipe
  struct stat status = {};
  const bool is_open = descriptor >= 0 && ::fstat(descriptor, &status) == 0;
  if (has_no_reader || (is_open && !S_ISREG(status.st_mode))) {
    throw IoError("'{}' is not a regular file; remove it or write elsewhere", path_.string());
  }
  if (descriptor < 0) ThrowErrno("open", path_);
  position_ = std::min(position, static_cast<std::int64_t>(status.st_size));
  if (!is_open || !Cut()) ThrowErrno("cut", path_);
}

bool JsonLog::Cut() {
  has_rest_ = Uninterrupted([this] { return ::ftruncate(descriptor_.value(), position_); }) != 0;
  return !has_rest_;
}

void JsonLog::Append(std::string_view object) {
  // a partial line before this one would make both unreadable
  if (has_rest_ && !Cut()) ThrowErrno("cut", path_);
  std::string line(object);
  line += '\n';
  try {
    WriteAll(descriptor_.value(), std::as_bytes(std::span(line)), path_);
  } catch (...) {
    Cut();
    throw;
  }
  position_ += static_cast<std::int64_t>(line.size());
}

void JsonLog::Sync() const {
  if (Uninterrupted([this] { return ::fsync(descriptor_.value()); }) == 0) return;
  ThrowErrno("fsync", path_);
}

std::string ReadWholeLines(const std::filesystem::path& path, std::size_t max_bytes) {
  if (!std::filesystem::exists(path)) return "";
  std::string text = ReadTextFile(path, max_bytes);
  text.resize(text.rfind('\n') + 1);  // npos + 1 is 0
  return text;
}

}  // namespace dp_bench::core
