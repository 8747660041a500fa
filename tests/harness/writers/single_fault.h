// Makes every system call of a writer fail once, and checks the message and the remaining files.
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
  std::vector<FaultyCall> calls;                              // the expected kinds of calls
  std::function<void(const std::filesystem::path&)> prepare;  // creates the initial state
  std::function<void(const std::filesystem::path&)> write;  // also what the user does after a fault
  /// The reader's result: kOld, kNew, or a description of the damage.
  std::function<std::string(const std::filesystem::path&)> find;
};

/// Repeats `writer` in a fresh folder for each of its calls and each way in which the call can
/// fail. The failure must give an Error with the system's reason, unless the writer can do without
/// the call, or the call was only interrupted or cut short. A reader must find the old state or the
/// new one, and the new one if nothing was thrown. No temporary files may remain, and writing again
/// must succeed. Prints the number of injected faults.
void FailEachCallOnce(const Writer& writer);

}  // namespace dp_bench
