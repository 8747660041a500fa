#include "core/ticket_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <utility>

#include "core/errors.h"

namespace dp_bench::core {
namespace {

// Until its destruction no other process has the lock.
class HeldFile {
 public:
  HeldFile(int descriptor, const std::filesystem::path& path) : descriptor_(descriptor) {
    if (Uninterrupted([&] { return flock(descriptor_, LOCK_EX); }) != 0) ThrowErrno("lock", path);
  }
  HeldFile(const HeldFile&) = delete;
  HeldFile& operator=(const HeldFile&) = delete;
  ~HeldFile() { flock(descriptor_, LOCK_UN); }

 private:
  int descriptor_;
};

}  // namespace

TicketFile::TicketFile(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  if (descriptor_.value() < 0) ThrowErrno("open", path_);
}

std::uint64_t TicketFile::Take() {
  const std::lock_guard lock(mutex_);
  const int descriptor = descriptor_.value();
  const HeldFile held(descriptor, path_);
  std::uint64_t next = 0;
  const ssize_t n_read = pread(descriptor, &next, sizeof(next), 0);
  if (n_read < 0) ThrowErrno("read", path_);
  if (n_read != 0 && n_read != sizeof(next)) {
    throw IoError("cannot read '{}': it has {} bytes, expected {}", path_.string(), n_read,
                  sizeof(next));
  }
  const std::uint64_t after = next + 1;
  if (pwrite(descriptor, &after, sizeof(after), 0) != sizeof(after)) ThrowErrno("write", path_);
  return next;
}

}  // namespace dp_bench::core
