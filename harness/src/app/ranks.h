// Runs verbs on several processes that mpirun started.
#pragma once

#include <functional>
#include <string_view>

#include "core/communicator.h"

namespace dp_bench::app {

/// Connects the ranks and runs `verb` on each. Only rank 0 writes to standard output. Waits for all
/// ranks and returns their largest exit code. With several ranks, an exception is printed with its
/// rank and ends all ranks; only exceptions of ConnectRanks are thrown.
int RunOnRanks(const std::function<int(core::Communicator& ranks)>& verb);

/// Throws Error{kUsage} if mpirun started several processes of `verb`, which supports only one.
void RequireOneProcess(std::string_view verb);

}  // namespace dp_bench::app
