#include "core/unnamed_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "core/system_error.h"

namespace dp_bench::core {
namespace {

namespace fs = std::filesystem;

fs::path LinkOf(int descriptor) { return fmt::format("/proc/self/fd/{}", descriptor); }

bool HasName(int descriptor) {
  struct stat status = {};
  return ::fstat(descriptor, &status) != 0 || status.st_nlink > 0;
}

bool TryName(int descriptor, const fs::path& name) {
  return ::linkat(AT_FDCWD, LinkOf(descriptor).c_str(), AT_FDCWD, name.c_str(),
                  AT_SYMLINK_FOLLOW) == 0;
}

int OpenWithoutName(const fs::path& folder) {
  return Uninterrupted(
      [&] { return ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666); });
}

// Some sandboxes can open such a file but not name it, which would lose its content. Tried once,
// with another file, because one that had a name cannot get one again.
bool CanBeNamed(const fs::path& folder, const fs::path& temporary) {
  static const bool can_be_named = [&] {
    const int descriptor = OpenWithoutName(folder);
    const bool is_named = descriptor >= 0 && TryName(descriptor, temporary);
    if (is_named) ::unlink(temporary.c_str());
    if (descriptor >= 0) ::close(descriptor);
    return is_named;
  }();
  return can_be_named;
}

}  // namespace

int OpenUnnamed(const fs::path& temporary) {
  const fs::path folder = temporary.has_parent_path() ? temporary.parent_path() : fs::path(".");
  // a name that is too long would show only when the content is complete
  if (temporary.filename().native().size() <= NAME_MAX) {
    const int descriptor = OpenWithoutName(folder);
    if (descriptor >= 0 && CanBeNamed(folder, temporary)) return descriptor;
    if (descriptor >= 0) ::close(descriptor);
    const bool is_unknown = errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL;
    if (descriptor < 0 && !is_unknown) ThrowErrno("create", temporary);
  }
  const int descriptor = Uninterrupted(
      [&] { return ::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
  if (descriptor < 0) ThrowErrno("create", temporary);
  ::flock(descriptor, LOCK_EX | LOCK_NB);  // shows RemoveLeftOvers that its writer is alive
  return descriptor;
}

fs::path PathOfUnnamed(int descriptor, const fs::path& temporary) {
  return HasName(descriptor) ? temporary : LinkOf(descriptor);
}

void NameUnnamed(int descriptor, const fs::path& temporary) {
  if (!HasName(descriptor) && !TryName(descriptor, temporary)) ThrowErrno("create", temporary);
}

}  // namespace dp_bench::core
