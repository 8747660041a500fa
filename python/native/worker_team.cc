#include "worker_team.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <latch>
#include <limits>
#include <mutex>

#include "dp_bench/error.h"

namespace dp_bench::python {
namespace {

// Keeps the error of the lowest index.
class FirstError {
 public:
  void Keep(std::size_t index, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (index >= index_) return;
    index_ = index;
    error_ = std::move(error);
  }
  void Rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::size_t index_ = std::numeric_limits<std::size_t>::max();
  std::exception_ptr error_;
};

}  // namespace

WorkerTeam::WorkerTeam(int n_workers)
    : n_workers_(static_cast<std::size_t>(n_workers)), process_id_(::getpid()) {
  if (n_workers > 1) pool_ = std::make_unique<core::ThreadPool>(n_workers - 1);
}

WorkerTeam::~WorkerTeam() {
  // a forked process has the pool but not its threads, so it could not join them
  if (::getpid() != process_id_) static_cast<void>(pool_.release());
}

void WorkerTeam::ForEach(std::size_t n, std::size_t max_chunk,
                         const std::function<void(std::size_t index)>& work) {
  if (pool_ != nullptr && ::getpid() != process_id_) {
    throw Error(ErrorCode::kEnv,
                "this vector env belongs to the process that forked this one; create another here");
  }
  const std::size_t chunk = std::clamp<std::size_t>(n / (4 * n_workers_), 1, max_chunk);
  std::atomic<std::size_t> next = 0;
  FirstError first_error;
  const auto take_chunks = [&] {
    for (std::size_t begin = next.fetch_add(chunk); begin < n; begin = next.fetch_add(chunk)) {
      for (std::size_t i = begin; i < std::min(begin + chunk, n); ++i) {
        try {
          work(i);
        } catch (...) {  // rethrown below
          first_error.Keep(i, std::current_exception());
        }
      }
    }
  };
  std::latch others(static_cast<std::ptrdiff_t>(n_workers_) - 1);
  for (std::size_t worker = 1; worker < n_workers_; ++worker) {
    pool_->Submit([&] {
      take_chunks();
      others.count_down();
    });
  }
  take_chunks();
  others.wait();
  first_error.Rethrow();
}

}  // namespace dp_bench::python
