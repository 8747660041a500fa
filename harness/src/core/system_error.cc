#include "core/system_error.h"

#include <unistd.h>

#include "core/errors.h"

namespace dp_bench::core {

void ThrowSystemError(std::string_view what, const std::filesystem::path& path,
                      const std::error_code& error) {
  throw IoError("cannot {} '{}': {}", what, path.string(), error.message());
}

void ThrowErrno(std::string_view what, const std::filesystem::path& path) {
  ThrowSystemError(what, path, std::error_code(errno, std::generic_category()));
}

void WriteAll(int descriptor, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t n =
        Uninterrupted([&] { return ::write(descriptor, bytes.data(), bytes.size()); });
    if (n < 0) ThrowErrno("write", path);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

}  // namespace dp_bench::core
