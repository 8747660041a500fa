// The ranks of mpirun, over MPI.
#pragma once

#include <memory>

#include "core/communicator.h"

namespace dp_bench::core {

/// Initializes MPI, once per process; the object's destructor finalizes it. Throws like
/// ConnectRanks if MPI is missing or does not find `n_ranks` ranks.
std::unique_ptr<Communicator> MakeMpiCommunicator(int n_ranks);

}  // namespace dp_bench::core
