// Verbs that mpirun may start several processes of.
#pragma once

#include <functional>
#include <string_view>

#include "core/communicator.h"

namespace dp_bench::app {

/// Connects the ranks and runs `verb` on each; rank 0 alone writes to standard output. Returns the
/// largest exit code of any rank, once all are through. With several ranks it throws nothing but
/// what ConnectRanks throws: an error is printed with its rank, and ends all of them.
int RunOnRanks(const std::function<int(core::Communicator& ranks)>& verb);

/// Throws Error{kUsage} when mpirun started several processes of `verb`, which is for one.
void RequireOneProcess(std::string_view verb);

}  // namespace dp_bench::app
