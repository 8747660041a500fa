// System calls: their errors as an Error, and their descriptors.
#pragma once

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

namespace dp_bench::core {

/// Throws Error{kIo}: "cannot <what> '<path>': <the system's reason>".
[[noreturn]] void ThrowSystemError(std::string_view what, const std::filesystem::path& path,
                                   const std::error_code& error);

/// The same for errno.
[[noreturn]] void ThrowErrno(std::string_view what, const std::filesystem::path& path);

/// Writes all of `bytes` to a descriptor, which messages name `path`. Throws Error{kIo}.
void WriteAll(int descriptor, std::span<const std::byte> bytes, const std::filesystem::path& path);

/// Owns a descriptor, and closes it. -1: none.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();
  int value() const { return value_; }

 private:
  int value_;
};

/// The result of a system call, repeated while a signal interrupts it (EINTR).
template <class Call>
auto Uninterrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace dp_bench::core
