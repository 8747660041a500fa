// Lets only one process at a time write into a folder. Otherwise runs and data sets would mix their
// rows.
#pragma once

#include <filesystem>

namespace dp_bench::core {

/// An exclusive lock on an existing folder, flock(2). It leaves no file behind, and the system
/// releases it when the process ends for any reason. The same process cannot take it twice.
class FolderLock {
 public:
  /// Throws Error{kUsage} at once if another process holds the lock, Error{kIo} if the folder
  /// cannot be opened.
  explicit FolderLock(const std::filesystem::path& folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

  /// Makes all files of the folder's file system durable. One call is enough for thousands of
  /// files.
  void SyncFileSystem() const;

 private:
  std::filesystem::path folder_;
  int descriptor_;
};

}  // namespace dp_bench::core
