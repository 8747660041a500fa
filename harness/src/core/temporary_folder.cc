#include "core/temporary_folder.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <system_error>

#include "dp_bench/error.h"

namespace dp_bench {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "dp_bench_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw Error(ErrorCode::kIo, fmt::format("cannot make a folder like '{}'", name));
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace dp_bench
