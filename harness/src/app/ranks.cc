#include "app/ranks.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <thread>

#include "app/failure.h"
#include "core/communicator.h"
#include "core/console.h"
#include "dp_bench/error.h"

namespace dp_bench::app {
namespace {

[[noreturn]] void End(core::Communicator& ranks, const std::string& message, int exit_code) {
  // an error of config or data hits all ranks; let rank 0 print it first and end the others
  if (!ranks.is_root()) std::this_thread::sleep_for(std::chrono::seconds(2));
  core::PrintStatus("dp_bench: rank {} of {}: {}\n", ranks.rank(), ranks.size(), message);
  std::fflush(nullptr);
  ranks.Abort(exit_code);
}

}  // namespace

int RunOnRanks(const std::function<int(core::Communicator& ranks)>& verb) {
  const std::unique_ptr<core::Communicator> ranks = core::ConnectRanks();
  if (ranks->size() == 1) return verb(*ranks);
  if (!ranks->is_root() && std::freopen("/dev/null", "w", stdout) == nullptr) {
    End(*ranks, "cannot open /dev/null", ExitCodeFor(ErrorCode::kIo));
  }
  try {
    const int exit_code = verb(*ranks);
    // mpirun kills the others when the first rank ends with a code other than 0
    return ranks->AllReduceMax(exit_code);
  } catch (const std::exception& exception) {
    const Failure failure = DescribeFailure(exception);
    End(*ranks, failure.message, failure.exit_code);
  }
}

void RequireOneProcess(std::string_view verb) {
  const int n_ranks = core::ReadLaunch().n_ranks;
  if (n_ranks == 1) return;
  throw Error(ErrorCode::kUsage,
              fmt::format("mpirun started {} processes of dp_bench {}, which supports only one; "
                          "train, run and eval support several",
                          n_ranks, verb));
}

}  // namespace dp_bench::app
