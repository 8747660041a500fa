// Communicator over MPI's C API; without_mpi.cc replaces it where CMake found no MPI.
#ifdef DPB_MPI

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "core/communicator.h"
#include "core/errors.h"

namespace dp_bench::core {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxCount = std::size_t{1} << 30;  // MPI counts in int
constexpr std::chrono::microseconds kSpinTime{200};
constexpr std::chrono::microseconds kLongestSleep{1000};

void Check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw IoError("the ranks lost their connection in {}: {}", what,
                std::string_view(text, static_cast<std::size_t>(length)));
}

// MPI itself would spin. A rank that waits while another one collects data or finishes its rollouts
// would take the processor away from threads that have work.
void Wait(MPI_Request request, const char* what) {
  const Clock::time_point start = Clock::now();
  std::chrono::microseconds sleep{20};
  while (true) {
    int is_done = 0;
    Check(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), what);
    if (is_done != 0) return;
    if (Clock::now() - start < kSpinTime) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(sleep);
      sleep = std::min(sleep * 2, kLongestSleep);
    }
  }
}

template <class T>
void Sum(std::span<T> values, MPI_Datatype type) {
  while (!values.empty()) {
    const std::size_t n = std::min(values.size(), kMaxCount);
    Check(MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(n), type, MPI_SUM,
                        MPI_COMM_WORLD),
          "a sum");
    values = values.subspan(n);
  }
}

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator() {
    // ranks share their cores with their own loader and checkpoint threads
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", /*replace=*/0);
    int thread_level = 0;
    Check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &thread_level), "MPI_Init");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  ~MpiCommunicator() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void AllReduceSum(std::span<float> values) override { Sum(values, MPI_FLOAT); }
  void AllReduceSum(std::span<double> values) override { Sum(values, MPI_DOUBLE); }

  std::vector<std::string> AllGather(const std::string& bytes) override {
    const std::vector<int> sizes = AllGatherSizes(static_cast<int>(bytes.size()));
    std::vector<int> offsets(sizes.size());
    std::exclusive_scan(sizes.begin(), sizes.end(), offsets.begin(), 0);
    std::string all(static_cast<std::size_t>(offsets.back() + sizes.back()), '\0');
    MPI_Request request = MPI_REQUEST_NULL;
    Check(MPI_Iallgatherv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, all.data(),
                          sizes.data(), offsets.data(), MPI_BYTE, MPI_COMM_WORLD, &request),
          "a gather");
    Wait(request, "a gather");

    std::vector<std::string> parts;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      parts.push_back(
          all.substr(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(sizes[i])));
    }
    return parts;
  }

 private:
  void EndOthers(int exit_code) override { MPI_Abort(MPI_COMM_WORLD, exit_code); }

  std::vector<int> AllGatherSizes(int size) const {
    std::vector<int> sizes(static_cast<std::size_t>(size_));
    MPI_Request request = MPI_REQUEST_NULL;
    Check(MPI_Iallgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD, &request),
          "a gather");
    Wait(request, "a gather");
    return sizes;
  }

  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

std::unique_ptr<Communicator> ConnectRanks() {
  const int n_ranks = ReadLaunch().n_ranks;
  if (n_ranks == 1) return std::make_unique<SingleProcess>();
  auto ranks = std::make_unique<MpiCommunicator>();
  if (ranks->size() == n_ranks) return ranks;
  throw UsageError(
      "mpirun started {} ranks, but MPI finds {}: this mpirun does not belong to the MPI that "
      "dp_bench was built with ({})",
      n_ranks, ranks->size(), MpiVersion());
}

std::string MpiVersion() {
  // allowed before MPI_Init; the rest of the text describes how the library was built
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string_view version(text, static_cast<std::size_t>(length));
  return std::string(version.substr(0, version.find_first_of(",\n")));
}

}  // namespace dp_bench::core

#endif
