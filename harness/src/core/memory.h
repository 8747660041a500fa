// How much memory the system could provide now.
#pragma once

#include <cstdint>
#include <new>
#include <string>
#include <utility>

namespace dp_bench::core {

/// [bytes]; 0 if the system does not report it.
std::int64_t AvailableMemory();

// An allocation that the system or a device refused, with what was being allocated.

/// Passes through the plugin guards like std::bad_alloc: the plugin is not at fault.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string what) : what_(std::move(what)) {}
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

}  // namespace dp_bench::core
