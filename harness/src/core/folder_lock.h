// Lets only one process at a time write into a folder. Otherwise runs and datasets would mix their
// rows.
#pragma once

#include <filesystem>
#include <optional>
#include <system_error>

#include "core/atomic_file.h"
#include "core/system_error.h"

namespace dp_bench::core {

/// An exclusive lock on an existing folder, flock(2). It leaves no file behind, and the system
/// releases it when the process ends for any reason. The same process cannot take it twice.
///
/// Some file systems have no flock (Lustre without its mount option, some NFS). There the lock is a
/// file in the folder that names the process, created with O_EXCL. A warning says so. If that
/// process of this machine is gone, the next one takes the lock over.
class FolderLock {
 public:
  /// flock(2); tests replace it.
  using LockCall = int (*)(int descriptor, int operation);

  /// Throws Error{kUsage} at once if another process holds the lock, Error{kIo} if the folder
  /// cannot be opened.
  explicit FolderLock(const std::filesystem::path& folder, LockCall lock = nullptr);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

  /// Makes all files of the folder's file system durable. One call is enough for thousands of
  /// files.
  void SyncFileSystem() const;

 private:
  void LockByFile(const std::error_code& why);

  std::filesystem::path folder_;
  Descriptor descriptor_;
  std::optional<Unfinished> file_;  // the lock, where there is no flock
};

inline constexpr const char* kLockFile = ".dp_bench.lock";

}  // namespace dp_bench::core
