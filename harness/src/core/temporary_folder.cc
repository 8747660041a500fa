#include "core/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include "core/errors.h"

namespace dp_bench::core {

TemporaryFolder::TemporaryFolder() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) {
    const char* const asked = std::getenv("TMPDIR");
    throw IoError(
        "the folder for temporary files, '{}', cannot be used: {}. Set TMPDIR to one that exists.",
        asked != nullptr ? asked : "/tmp", error.message());
  }
  std::string name = (folder / "dp_bench_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw IoError("cannot make a folder like '{}': {}. Set TMPDIR to a folder that can be written.",
                  name, std::generic_category().message(errno));
  }
  path_ = name;
  unfinished_.emplace(path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace dp_bench::core
