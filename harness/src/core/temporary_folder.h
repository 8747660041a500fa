// A folder for what nobody keeps.
#pragma once

#include <filesystem>
#include <optional>

#include "core/atomic_file.h"

namespace dp_bench::core {

/// Made in the system's folder for temporary files, and removed with all that is in it.
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
