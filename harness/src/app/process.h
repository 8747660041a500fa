// The process of dp_bench_torch: memory allocation, the ranks of mpirun, and LibTorch's exceptions.
#pragma once

#include <exception>
#include <functional>

#include "app/light/program.h"
#include "core/communicator.h"

namespace dp_bench::app {
/// Ends the program, without the destructors of static objects: LibTorch's would take a quarter of
/// the time of a short command, to forget one by one the operators that it knows.
[[noreturn]] void EndAtOnce(int exit_code);

/// DescribeFailure, which also knows LibTorch's lack of memory.
Failure DescribeTorchFailure(const std::exception& exception);

/// Connects the ranks and runs `verb` on each. Only rank 0 writes to standard output. Waits for all
/// ranks and returns their largest exit code. With several ranks, an exception is printed with its
/// rank and ends all ranks; only exceptions of ConnectRanks are thrown.
int RunOnRanks(const std::function<int(core::Communicator& ranks)>& verb);

}  // namespace dp_bench::app
