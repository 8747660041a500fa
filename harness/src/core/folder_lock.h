// Lets only one process at a time write into a folder. Otherwise runs and datasets would mix their
// rows.
#pragma once

#include <filesystem>
#include <optional>
#include <system_error>

#include "core/atomic_file.h"
#include "core/system_error.h"

namespace dp_bench::core {

/// The system calls behind a lock; tests replace them.
struct LockCalls {
  int (*lock)(int descriptor, int operation);  // flock(2)
  bool (*is_shared)(int descriptor);           // whether other machines may have the file system
  static LockCalls OfTheSystem();
};

/// An exclusive lock on an existing folder, flock(2). It leaves no file behind, and the system
/// releases it when the process ends for any reason. The same process cannot take it twice.
///
/// NFS, Lustre, SMB and others know locks of files only: the lock of a folder holds on one machine.
/// There a file in the folder is locked too, while the lock exists.
///
/// Some file systems have no flock at all (Lustre without its mount option, some NFS). There the
/// lock is that file itself. It names the process, and O_EXCL creates it. A warning says so. If
/// that process of this machine is gone, the next one takes the lock over.
class FolderLock {
 public:
  /// Throws Error{kUsage} at once if another process holds the lock, Error{kIo} if the folder
  /// cannot be opened.
  explicit FolderLock(const std::filesystem::path& folder,
                      const LockCalls& calls = LockCalls::OfTheSystem());
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

  /// Makes all files of the folder's file system durable. One call is enough for thousands of
  /// files.
  void SyncFileSystem() const;

 private:
  void LockFile(const LockCalls& calls);
  void LockByFile(const std::error_code& why);

  std::filesystem::path folder_;
  Descriptor descriptor_;
  std::optional<Descriptor> locked_file_;  // where other machines may write into the folder
  std::optional<Unfinished> file_;         // it, or the lock itself where there is no flock
};

inline constexpr const char* kLockFile = ".dp_bench.lock";

}  // namespace dp_bench::core
