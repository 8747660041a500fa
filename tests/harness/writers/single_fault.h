// Every system call of a writer fails once: what it says, and what is left.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "support/fault_injection.h"

namespace dp_bench {

inline constexpr const char* kOld = "old";
inline constexpr const char* kNew = "new";

struct Writer {
  const char* name;
  std::vector<FaultyCall> calls;                              // that it is known to make
  std::function<void(const std::filesystem::path&)> prepare;  // what is there before
  std::function<void(const std::filesystem::path&)> write;  // also what the user does after a fault
  /// What a reader finds: kOld, kNew, or what is wrong.
  std::function<std::string(const std::filesystem::path&)> find;
};

/// For each call of `writer` below a fresh folder and each way in which it fails: the fault is an
/// Error with the system's reason, unless the writer can do without the call, or it was only
/// interrupted or cut short; a reader finds the old state or the new one, the new one when nothing
/// was thrown; no temporary files are left; and writing again succeeds. Prints how many faults
/// there were.
void FailEachCallOnce(const Writer& writer);

}  // namespace dp_bench
