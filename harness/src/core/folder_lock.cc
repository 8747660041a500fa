// POSIX calls behind core/folder_lock.h.
#include "core/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "core/system_error.h"
#include "dp_bench/error.h"

namespace dp_bench::core {

FolderLock::FolderLock(const std::filesystem::path& folder)
    : folder_(folder), descriptor_(Uninterrupted([&] {
        return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      })) {
  const auto lock = [this] { return ::flock(descriptor_, LOCK_EX | LOCK_NB); };
  if (descriptor_ >= 0 && Uninterrupted(lock) == 0) return;
  const std::error_code error(errno, std::generic_category());
  if (descriptor_ >= 0) ::close(descriptor_);
  if (error != std::errc::operation_would_block) ThrowSystemError("lock the folder", folder, error);
  throw Error(ErrorCode::kUsage,
              fmt::format("another process writes into '{}'; wait for it, or give another folder",
                          folder.string()));
}

FolderLock::~FolderLock() { ::close(descriptor_); }

void FolderLock::SyncFileSystem() const {
  if (Uninterrupted([this] { return ::syncfs(descriptor_); }) == 0) return;
  ThrowErrno("write to disk the file system of", folder_);
}

}  // namespace dp_bench::core
