// What mpirun says to a process that it starts, read before MPI itself is up.
#pragma once

namespace dp_bench {

struct Launch {
  int n_ranks = 1;
  int n_local_ranks = 1;  // those on this machine
  int local_rank = 0;     // among them
};

/// From the environment, as Open MPI, MPICH and Intel MPI set it; one rank without mpirun.
Launch ReadLaunch();

/// Gives this rank cores / n_local_ranks threads through OMP_NUM_THREADS, and where mpirun bound it
/// to fewer cores than that (its default is one core), a block of as many. Returns whether anything
/// was changed that an OpenMP library reads when it is loaded. Leaves everything alone with one
/// rank, and when OMP_NUM_THREADS is set.
bool ShareCores(const Launch& launch);

}  // namespace dp_bench
