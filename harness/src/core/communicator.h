// What the processes ("ranks") of one run tell each other.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dp_bench::core {

/// All ranks call the same functions in the same order, each from one thread; a call returns when
/// all ranks have come to it. When a rank dies, the others end too. Throws Error{kIo} when the
/// connection fails.
class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  virtual int rank() const = 0;  // 0 to size() - 1
  virtual int size() const = 0;

  /// Rank 0: the one that writes files and speaks to the user.
  bool is_root() const { return rank() == 0; }

  /// Sums element by element. All ranks give equally many values and get the same bits.
  virtual void AllReduceSum(std::span<float> values) = 0;
  virtual void AllReduceSum(std::span<double> values) = 0;

  virtual int AllReduceMax(int value) = 0;

  /// The bytes of every rank, in the order of ranks.
  virtual std::vector<std::string> AllGather(const std::string& bytes) = 0;

  /// Does not use the processor while it waits.
  virtual void Barrier() = 0;

  /// Ends all ranks at once, without destructors; the run's exit code becomes `exit_code`.
  [[noreturn]] void Abort(int exit_code);

  /// What rank 0 gives; the other ranks' argument does not matter.
  std::string FromRoot(const std::string& bytes);

 private:
  virtual void EndOthers(int exit_code) = 0;
};

/// A run of one process.
class SingleProcess final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void AllReduceSum(std::span<float> /*values*/) override {}
  void AllReduceSum(std::span<double> /*values*/) override {}
  int AllReduceMax(int value) override { return value; }
  std::vector<std::string> AllGather(const std::string& bytes) override { return {bytes}; }
  void Barrier() override {}

 private:
  void EndOthers(int /*exit_code*/) override {}
};

/// The ranks that mpirun started, or a SingleProcess where it started one or was not used. Called
/// once. Throws Error{kUsage} when there are several and dp_bench was built without MPI, or with
/// another one than that of mpirun.
std::unique_ptr<Communicator> ConnectRanks();

/// "Open MPI v4.1.4", or "not built in".
std::string MpiVersion();

// What mpirun says to a process that it starts, read before MPI itself is up.

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

}  // namespace dp_bench::core
