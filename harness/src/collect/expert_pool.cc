#include "collect/expert_pool.h"

#include <algorithm>
#include <utility>

#include "core/thread_pool.h"

namespace dp_bench {

ExpertPool::ExpertPool(const ExpertPlan& plan, std::uint64_t first_seed, int n_workers)
    : plan_(plan),
      n_workers_(ResolveThreadCount(n_workers)),
      next_to_hand_out_(first_seed),
      next_to_begin_(first_seed),
      end_(first_seed) {
  for (int i = 0; i < n_workers_; ++i) workers_.emplace_back([this] { Work(); });
}

ExpertPool::~ExpertPool() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  may_begin_.notify_all();
}

std::optional<ExpertEpisode> ExpertPool::Next(int n_missing) {
  std::unique_lock lock(mutex_);
  const int ahead = std::min(n_missing, 2 * n_workers_);
  end_ = std::max(end_, next_to_hand_out_ + static_cast<std::uint64_t>(ahead));
  may_begin_.notify_all();
  has_ended_.wait(lock, [this] {
    return is_stopped_ || failure_ != nullptr || ready_.contains(next_to_hand_out_);
  });
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  auto episode = ready_.extract(next_to_hand_out_);
  if (episode.empty()) return std::nullopt;
  ++next_to_hand_out_;
  return std::move(episode.mapped());
}

// An env is made, used and destroyed by one thread: graphics contexts want that.
void ExpertPool::Work() {
  try {
    ExpertRunner runner(plan_);
    while (true) {
      std::unique_lock lock(mutex_);
      may_begin_.wait(lock, [this] { return is_stopped_ || next_to_begin_ < end_; });
      if (is_stopped_) return;
      const std::uint64_t seed = next_to_begin_++;
      lock.unlock();
      std::optional<ExpertEpisode> episode = runner.Run(seed);
      lock.lock();
      if (episode) {
        ready_.emplace(seed, std::move(*episode));
      } else {
        is_stopped_ = true;
        may_begin_.notify_all();
      }
      has_ended_.notify_all();
    }
  } catch (...) {  // thread entry point: Next throws it
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    has_ended_.notify_all();
  }
}

}  // namespace dp_bench
