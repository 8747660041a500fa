#include "core/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/errors.h"
#include "core/system_error.h"

namespace dp_bench::core {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kLineBlockBytes = std::size_t{64} << 10;

void RequireRegular(const fs::path& path, const struct stat& status) {
  if (S_ISREG(status.st_mode)) return;
  std::string_view kind = "something else";
  if (S_ISDIR(status.st_mode)) kind = "a folder";
  if (S_ISFIFO(status.st_mode)) kind = "a named pipe (FIFO)";
  if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)) kind = "a device";
  if (S_ISSOCK(status.st_mode)) kind = "a socket";
  throw IoError(
      "cannot read '{}': expected a regular file, found {}. Give the path of a file, or copy its "
      "content into one.",
      path.string(), kind);
}

// The first check avoids opening devices, because opening one can have side effects. The check
// after opening covers the file that is actually read.
int OpenRegular(const fs::path& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) ThrowErrno("open", path);
  RequireRegular(path, status);
  const int descriptor = Uninterrupted(
      [&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); });
  if (descriptor < 0) ThrowErrno("open", path);
  return descriptor;
}

}  // namespace

RegularFile::RegularFile(fs::path path, std::uint64_t max_bytes)
    : path_(std::move(path)), descriptor_(OpenRegular(path_)) {
  struct stat status = {};
  if (::fstat(descriptor_.value(), &status) != 0) ThrowErrno("look at", path_);
  RequireRegular(path_, status);
  size_ = static_cast<std::uint64_t>(status.st_size);
  if (size_ > max_bytes) {
    throw IoError("'{}' has {} bytes, at most {} are expected here", path_.string(), size_,
                  max_bytes);
  }
}

std::size_t RegularFile::Read(std::span<std::byte> out) {
  out = out.first(std::min<std::uint64_t>(out.size(), left()));
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = Uninterrupted([&] {
      return ::pread(descriptor_.value(), out.data() + done, out.size() - done,
                     static_cast<off_t>(position_));
    });
    if (got < 0) ThrowErrno("read", path_);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
    position_ += static_cast<std::uint64_t>(got);
  }
  return done;
}

void RegularFile::ReadExactly(std::span<std::byte> out) {
  if (Read(out) == out.size()) return;
  throw IoError("'{}' ended while it was read", path_.string());
}

void RegularFile::Seek(std::uint64_t position) {
  DPB_ASSERT(position <= size_);
  position_ = position;
}

LineReader::LineReader(fs::path path, std::uint64_t max_file_bytes, std::size_t max_line_bytes)
    : file_(std::move(path), max_file_bytes), max_line_bytes_(max_line_bytes) {}

bool LineReader::Refill() {
  block_.resize(kLineBlockBytes);
  block_.resize(file_.Read(std::as_writable_bytes(std::span(block_))));
  position_ = 0;
  return !block_.empty();
}

bool LineReader::Next(std::string* line) {
  line->clear();
  bool has_begun = false;
  while (position_ < block_.size() || Refill()) {
    has_begun = true;
    const std::size_t end = block_.find('\n', position_);
    const std::size_t stop = std::min(end, block_.size());
    const std::size_t room = max_line_bytes_ - line->size();
    line->append(block_, position_, std::min(stop - position_, room));
    position_ = stop + (end == std::string::npos ? 0 : 1);
    if (end != std::string::npos) return true;
  }
  return has_begun;
}

}  // namespace dp_bench::core
