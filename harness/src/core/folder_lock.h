// One process at a time writes into a folder: runs and data sets would otherwise mix their rows.
#pragma once

#include <filesystem>

namespace dp_bench::core {

/// An exclusive lock on an existing folder, flock(2). It leaves no file behind; the system lets go
/// of it when the process ends, however it ends. The same process cannot take it twice.
class FolderLock {
 public:
  /// Throws Error{kUsage} at once when another process holds it, Error{kIo} when the folder cannot
  /// be opened.
  explicit FolderLock(const std::filesystem::path& folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

  /// Makes all files of the folder's file system durable: one call for thousands of them.
  void SyncFileSystem() const;

 private:
  std::filesystem::path folder_;
  int descriptor_;
};

}  // namespace dp_bench::core
