// Communication between the processes ("ranks") of one run.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dp_bench::core {

/// All ranks call the same functions in the same order, each from one thread. A call returns when
/// all ranks have made it. If a rank dies, the others end too. Throws Error{kIo} if the connection
/// fails.
class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  virtual int rank() const = 0;  // 0 to size() - 1
  virtual int size() const = 0;

  /// Rank 0 writes the files and the messages to the user.
  bool is_root() const { return rank() == 0; }

  /// Sums element by element. All ranks pass the same number of values and get the same bits.
  virtual void AllReduceSum(std::span<float> values) = 0;
  virtual void AllReduceSum(std::span<double> values) = 0;

  /// The bytes of every rank, in the order of ranks. Waits without using the processor, as do the
  /// functions below.
  virtual std::vector<std::string> AllGather(const std::string& bytes) = 0;

  /// Ends all ranks at once, without running destructors. The run's exit code becomes `exit_code`.
  [[noreturn]] void Abort(int exit_code);

  /// The largest value of any rank.
  int AllReduceMax(int value);

  void Barrier() { AllGather(""); }

  /// The value of rank 0; the argument of the other ranks is ignored.
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
  std::vector<std::string> AllGather(const std::string& bytes) override { return {bytes}; }

 private:
  void EndOthers(int /*exit_code*/) override {}
};

/// The ranks that mpirun started, or a SingleProcess if there is only one. Call it once. Throws
/// Error{kUsage} if there are several ranks and dp_bench was built without MPI, or with an MPI that
/// does not match mpirun.
std::unique_ptr<Communicator> ConnectRanks();

inline constexpr const char* kWithoutMpi = "not built in";

/// "Open MPI v4.1.4", or kWithoutMpi.
std::string MpiVersion();

// What mpirun tells a process that it starts, read before MPI is initialized.

struct Launch {
  int n_ranks = 1;
  int n_local_ranks = 1;  // ranks on this machine
  int local_rank = 0;     // this rank's place among them
};

/// From the environment, as Open MPI, MPICH and Intel MPI set it; one rank without mpirun.
Launch ReadLaunch();

/// Gives this rank cores / n_local_ranks threads through OMP_NUM_THREADS, or fewer if the quotas of
/// control groups allow fewer. If mpirun bound the rank to fewer cores than its share (its default
/// is one core), also binds it to a block of cores / n_local_ranks. Returns whether anything
/// changed that an OpenMP library reads when it is loaded. Changes nothing if there is one rank or
/// OMP_NUM_THREADS is set.
bool ShareCores(const Launch& launch);

}  // namespace dp_bench::core
