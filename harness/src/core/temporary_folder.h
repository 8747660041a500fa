// A folder for files that are not kept.
#pragma once

#include <filesystem>
#include <optional>

#include "core/atomic_file.h"

namespace dp_bench::core {

/// Created in the system's folder for temporary files, and removed with its contents.
class TemporaryFolder {
 public:
  /// Throws Error{kIo}.
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::optional<Unfinished> unfinished_;
};

}  // namespace dp_bench::core
