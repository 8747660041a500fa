#include "core/communicator.h"
#include "core/mpi_communicator.h"

namespace dp_bench::core {

std::unique_ptr<Communicator> ConnectRanks() {
  const int n_ranks = ReadLaunch().n_ranks;
  if (n_ranks == 1) return std::make_unique<SingleProcess>();
  return MakeMpiCommunicator(n_ranks);
}

}  // namespace dp_bench::core
