// Numbers that several processes take, each number once: who asks first gets the next one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>

#include "core/system_error.h"

namespace dp_bench::core {

/// 0, 1, 2, ... from a file that all processes open. Thread-safe.
class TicketFile {
 public:
  /// Creates the file, or opens that of another process. Throws Error{kIo}.
  explicit TicketFile(std::filesystem::path path);
  TicketFile(const TicketFile&) = delete;
  TicketFile& operator=(const TicketFile&) = delete;

  /// Throws Error{kIo}, also if the file system has no locks.
  std::uint64_t Take();

 private:
  std::filesystem::path path_;
  std::mutex mutex_;  // the lock of the file is that of the process
  Descriptor descriptor_;
};

}  // namespace dp_bench::core
