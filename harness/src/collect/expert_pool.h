// Experts on several threads, their episodes handed out in the order of the seeds.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "collect/expert_runner.h"

namespace dp_bench {

class ExpertPool {
 public:
  /// `plan` must outlive the pool. No seed is begun before `Next` asks for it.
  ExpertPool(const ExpertPlan& plan, std::uint64_t first_seed, int n_workers);
  ExpertPool(const ExpertPool&) = delete;
  ExpertPool& operator=(const ExpertPool&) = delete;
  /// Waits for the episodes that are being played.
  ~ExpertPool();

  /// What came of the next seed. `n_missing`: how many more the caller would take if all were
  /// good; workers go no further ahead, and no further than two episodes each. Nothing once
  /// `plan.stop` ended an episode.
  std::optional<ExpertEpisode> Next(int n_missing);

 private:
  void Work();

  const ExpertPlan& plan_;
  const int n_workers_;

  std::mutex mutex_;
  std::condition_variable may_begin_;
  std::condition_variable has_ended_;
  std::uint64_t next_to_hand_out_;
  std::uint64_t next_to_begin_;
  std::uint64_t end_;  // one past the last seed that may begin
  std::map<std::uint64_t, ExpertEpisode> ready_;
  bool is_stopped_ = false;  // an episode was given up, or the pool is closing
  std::exception_ptr failure_;
  std::vector<std::jthread> workers_;  // last: joined before what they use goes
};

}  // namespace dp_bench
