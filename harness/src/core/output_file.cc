#include "core/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <system_error>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/parse_number.h"
#include "core/system_error.h"

namespace dp_bench::core {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as the kernel

fs::path ParentOf(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// N for /dev/fd/N, /proc/self/fd/N, and what /dev/stdout leads to. What is open may have no name,
// and opening it again would lose its place in the file.
std::optional<int> OpenDescriptorAt(const fs::path& path) {
  std::error_code ignored;
  if (fs::canonical(ParentOf(path), ignored) != fs::canonical("/proc/self/fd", ignored) || ignored)
    return std::nullopt;
  return ParseNumber<int>(path.filename().string());
}

void RequireOpenForWriting(int descriptor, const fs::path& path) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags < 0) ThrowErrno("write to", path);
  if ((flags & O_ACCMODE) != O_RDONLY) return;
  throw IoError("cannot write to '{}': it is open for reading only", path.string());
}

[[noreturn]] void ThrowNoFile(const fs::path& path, std::string_view found) {
  throw UsageError(
      "cannot write a result to '{}': expected a file, found {}. Give the name of a file, or - for "
      "standard output.",
      path.string(), found);
}

// Whether it is a stream. Opening a FIFO would wait for its reader, so only the permission is
// checked.
bool IsStream(const fs::path& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) ThrowErrno("write", path);
    if (::access(ParentOf(path).c_str(), W_OK | X_OK) != 0) ThrowErrno("write", path);
    return false;
  }
  if (S_ISDIR(status.st_mode)) ThrowNoFile(path, "a folder");
  if (S_ISBLK(status.st_mode)) ThrowNoFile(path, "a disk");
  if (S_ISSOCK(status.st_mode)) ThrowNoFile(path, "a socket");
  const bool is_stream = !S_ISREG(status.st_mode);
  const fs::path written = is_stream ? path : ParentOf(path);
  if (::access(written.c_str(), W_OK) != 0) ThrowErrno("write", path);
  return is_stream;
}

}  // namespace

OutputPlace FindOutput(const fs::path& path) {
  fs::path place = path == "-" ? fs::path("/dev/fd/1") : path;
  for (int n_links = 0; n_links < kMostLinks; ++n_links) {
    if (const std::optional<int> descriptor = OpenDescriptorAt(place)) {
      RequireOpenForWriting(*descriptor, path);
      return {.path = path, .is_stream = true, .descriptor = *descriptor};
    }
    std::error_code error;
    if (!fs::is_symlink(place, error)) return {.path = place, .is_stream = IsStream(place)};
    const fs::path target = fs::read_symlink(place, error);
    if (error) ThrowSystemError("follow the link", place, error);
    place = ParentOf(place) / target;
  }
  ThrowSystemError("write", path, std::make_error_code(std::errc::too_many_symbolic_link_levels));
}

void WriteOutput(const fs::path& path, std::span<const std::byte> bytes) {
  const OutputPlace place = FindOutput(path);
  if (!place.is_stream) {
    RemoveLeftOvers(place.path);
    WriteFileAtomically(place.path, bytes);
    return;
  }
  if (place.descriptor >= 0) {
    WriteAll(place.descriptor, bytes, path);
    return;
  }
  const Descriptor descriptor(
      Uninterrupted([&] { return ::open(place.path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY); }));
  if (descriptor.value() < 0) ThrowErrno("open", path);
  WriteAll(descriptor.value(), bytes, path);
}

void WriteOutput(const fs::path& path, std::string_view text) {
  WriteOutput(path, std::as_bytes(std::span(text)));
}

}  // namespace dp_bench::core
