#include "core/system_error.h"

#include <fmt/format.h>

#include <cerrno>

#include "dp_bench/error.h"

namespace dp_bench::core {

void ThrowSystemError(std::string_view what, const std::filesystem::path& path,
                      const std::error_code& error) {
  throw Error(ErrorCode::kIo,
              fmt::format("cannot {} '{}': {}", what, path.string(), error.message()));
}

void ThrowErrno(std::string_view what, const std::filesystem::path& path) {
  ThrowSystemError(what, path, std::error_code(errno, std::generic_category()));
}

}  // namespace dp_bench::core
