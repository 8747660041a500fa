// Plans for many clients at once, on a thread of its own.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "control/chunk_planner.h"
#include "control/obs_history.h"
#include "dp_bench/spec.h"

namespace dp_bench::serve {

/// What became of a plan.
struct PlanOutcome {
  std::vector<float> chunk;  // [Ta, Da]; empty after an error
  std::string error;
  double queue_s = 0.0;  // waited
  double plan_s = 0.0;   // the batch took
};

struct BatcherOptions {
  std::chrono::microseconds max_wait{2000};
  std::size_t max_queue = 256;  // rows
};

/// Since the start, unless it says otherwise. Times in seconds.
struct BatcherCounts {
  std::uint64_t n_rows = 0;
  std::uint64_t n_batches = 0;
  std::size_t n_queued = 0;  // now
  double plan_s = 0.0;
  double arrivals_per_s = 0.0;  // of the last seconds, also of refused rows
  double capacity_per_s = 0.0;  // rows per second, if all batches are full; 0: not known yet
};

/// Takes rows in the order in which they came, as many as the planner's batch has. A batch that is
/// not full waits, but only for clients that asked a moment ago, and no longer than max_wait. The
/// other rows of a batch do not change the chunk of a row (ChunkPlanner), nor does the time.
class Batcher {
 public:
  using Clock = std::chrono::steady_clock;

  Batcher(std::shared_ptr<control::ChunkPlanner> planner, const PolicySpec& spec,
          const BatcherOptions& options);
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;
  /// What is still queued is never planned, and its `done` not called.
  ~Batcher();

  /// Whether so many rows fit into the queue. An empty one takes every request, or else one of more
  /// rows than max_queue would be refused for ever.
  bool HasRoom(std::size_t n_rows);

  /// `history` must not change before `done`, which is called at most once on the batcher's
  /// thread.
  struct Row {
    const control::ObsHistory* history;
    control::PlanRow row;
    std::function<void(PlanOutcome)> done;
  };
  void Queue(std::vector<Row> rows);

  /// The next batches are planned by this one, of the same spec and batch size.
  void Replace(std::shared_ptr<control::ChunkPlanner> planner);

  std::size_t batch_size() const { return batch_size_; }
  BatcherCounts counts() const;

 private:
  struct Waiting {
    Row row;
    Clock::time_point since;
  };

  void Loop();
  std::vector<Waiting> TakeBatch();
  void PlanBatch(std::vector<Waiting> batch);
  bool TryPlan(std::size_t n_rows, std::string* error);
  void PlanOneByOne(std::span<Waiting> batch, std::span<PlanOutcome> outcomes);
  void CountArrivals(std::size_t n);

  PolicySpec spec_;
  BatcherOptions options_;
  std::size_t batch_size_;
  std::size_t chunk_size_;
  control::ObsBatch obs_;
  std::vector<control::PlanRow> rows_;
  std::vector<float> chunks_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<control::ChunkPlanner> planner_;
  std::deque<Waiting> queue_;
  std::array<std::size_t, 8> latest_ = {1};  // rows of the latest batches and of their queues
  bool is_ending_ = false;
  BatcherCounts counts_;
  double batch_s_ = 0.0;  // a moving average
  static constexpr std::size_t kSeconds = 8;
  std::array<std::uint64_t, kSeconds> arrivals_ = {};  // of each second, a ring
  std::int64_t second_ = 0;
  Clock::time_point start_ = Clock::now();

  std::thread thread_;  // last: it uses the members above
};

}  // namespace dp_bench::serve
