// The ranks of mpirun, over MPI.
#pragma once

#include <memory>

#include "core/communicator.h"

namespace dp_bench::core {

/// Initialises MPI, which happens once in a process; its end finalises it. Throws as ConnectRanks
/// when there is no MPI or it does not find `n_ranks` ranks.
std::unique_ptr<Communicator> MakeMpiCommunicator(int n_ranks);

}  // namespace dp_bench::core
