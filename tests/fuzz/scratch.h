// Files for readers that open them by their names.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "core/atomic_file.h"
#include "core/temporary_folder.h"

namespace dp_bench::fuzz {

/// A folder whose files every input replaces.
class Scratch {
 public:
  const std::filesystem::path& path() const { return folder_.path(); }

  /// Returns the file with this content; without content there is none.
  std::filesystem::path Put(std::string_view name, std::span<const std::byte> bytes) const {
    const std::filesystem::path file = path() / name;
    if (bytes.empty()) {
      core::RemoveAll(file);
    } else {
      core::WriteNewFile(file, bytes);
    }
    return file;
  }
  std::filesystem::path Put(std::string_view name, std::string_view text) const {
    return Put(name, std::as_bytes(std::span(text)));
  }

 private:
  core::TemporaryFolder folder_;
};

}  // namespace dp_bench::fuzz
