// Replaces mpi_communicator.cc if CMake found no MPI.
#ifndef DPB_MPI

#include "core/communicator.h"
#include "core/errors.h"

namespace dp_bench::core {

std::unique_ptr<Communicator> ConnectRanks() {
  const int n_ranks = ReadLaunch().n_ranks;
  if (n_ranks == 1) return std::make_unique<SingleProcess>();
  throw UsageError(
      "mpirun started {} ranks, but dp_bench was built without MPI. Install it (scripts/setup.sh) "
      "and build again, or start dp_bench without mpirun.",
      n_ranks);
}

std::string MpiVersion() { return kWithoutMpi; }

}  // namespace dp_bench::core

#endif
