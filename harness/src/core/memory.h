// How much memory the system could give now.
#pragma once

#include <cstdint>
#include <new>
#include <string>
#include <utility>

namespace dp_bench::core {

/// [bytes]; 0 where the system does not say.
std::int64_t AvailableMemory();

// Memory that the system or a device refused, with what was asked for.

/// Passes the guards around plugins as std::bad_alloc does: no plugin is at fault.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string what) : what_(std::move(what)) {}
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

}  // namespace dp_bench::core
