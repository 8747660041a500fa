// The time of training steps, by phase.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <numeric>
#include <utility>

namespace dp_bench::train {

/// The phases of a step, in order. On a GPU a phase is the time that the host waits: the host waits
/// for the backward pass where it reads the gradient norm, in kOptimizer.
enum class StepPhase {
  kDataWait,   // BatchLoader::Next
  kForward,    // copy to the device, and the loss
  kBackward,   // the gradients
  kOptimizer,  // clipping, and the update of the weights
  kEma,
};

/// A stopwatch with one reading per phase; it allocates nothing.
class StepTimer {
 public:
  /// `now` returns seconds, increasing. `wait` is called before each reading: a profile waits there
  /// for its device, a training does not.
  explicit StepTimer(std::function<double()> now, std::function<void()> wait = {})
      : now_(std::move(now)), wait_(std::move(wait)) {}

  /// Starts timing. The time since the last Lap belongs to no phase.
  void Start() { last_ = now_(); }

  /// Adds the time since Start or the last Lap to `phase`.
  void Lap(StepPhase phase) {
    if (wait_) wait_();
    const double now = now_();
    seconds_[static_cast<std::size_t>(phase)] += now - last_;
    last_ = now;
  }

  void Reset() { seconds_.fill(0.0); }

  /// [s] since Reset.
  double seconds(StepPhase phase) const { return seconds_[static_cast<std::size_t>(phase)]; }
  double total() const { return std::accumulate(seconds_.begin(), seconds_.end(), 0.0); }

 private:
  std::function<double()> now_;
  std::function<void()> wait_;
  double last_ = 0.0;
  std::array<double, static_cast<std::size_t>(StepPhase::kEma) + 1> seconds_{};
};

}  // namespace dp_bench::train
