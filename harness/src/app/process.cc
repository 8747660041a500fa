#include "app/process.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "core/console.h"
#include "dp_bench/error.h"
#include "policy/device.h"

namespace dp_bench::app {
namespace {

[[noreturn]] void End(core::Communicator& ranks, const std::string& message, int exit_code) {
  // an error of config or data hits all ranks; let rank 0 print it and end the others, which takes
  // seconds on a busy machine
  if (!ranks.is_root()) std::this_thread::sleep_for(std::chrono::seconds(10));
  core::PrintStatus("dp_bench: rank {} of {}: {}\n", ranks.rank(), ranks.size(), message);
  std::fflush(nullptr);
  ranks.Abort(exit_code);
}

}  // namespace

void EndAtOnce(int exit_code) {
#ifdef __SANITIZE_ADDRESS__
  std::exit(exit_code);  // which looks for leaks
#else
  std::fflush(nullptr);
  std::_Exit(exit_code);
#endif
}

Failure DescribeTorchFailure(const std::exception& exception) {
  const auto* error = dynamic_cast<const c10::Error*>(&exception);
  if (error == nullptr || !policy::IsOutOfMemory(*error)) return DescribeFailure(exception);
  return FailureOfMemory(error->what_without_backtrace());
}

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
    const Failure failure = DescribeTorchFailure(exception);
    End(*ranks, failure.message, failure.exit_code);
  }
}

}  // namespace dp_bench::app
