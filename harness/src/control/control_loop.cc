#include "control/control_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/clock.h"
#include "core/errors.h"

namespace dp_bench::control {
namespace {

LoopOptions Checked(const LoopOptions& options) {
  if (options.latency_steps < 0) {
    throw UsageError("latency_steps is {}, expected 0 or more", options.latency_steps);
  }
  constexpr double kMaxDeadline = 1.0e6;  // [s]
  if (!(options.deadline_s >= 0.0 && options.deadline_s <= kMaxDeadline)) {
    throw UsageError("deadline_s is {}, expected 0 to {:g} seconds", options.deadline_s,
                     kMaxDeadline);
  }
  return options;
}

}  // namespace

BackgroundTask::BackgroundTask(std::function<void()> task)
    : task_(std::move(task)), thread_([this] { Loop(); }) {}

BackgroundTask::~BackgroundTask() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BackgroundTask::Start() {
  {
    const std::lock_guard lock(mutex_);
    DPB_ASSERT(!is_running_);
    is_running_ = true;
  }
  changed_.notify_all();
}

bool BackgroundTask::Wait(std::optional<Clock::time_point> limit) {
  std::unique_lock lock(mutex_);
  const auto has_ended = [this] { return !is_running_; };
  if (limit) return changed_.wait_until(lock, *limit, has_ended);
  changed_.wait(lock, has_ended);
  return true;
}

void BackgroundTask::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_running_ || is_ending_; });
    if (!is_running_) return;
    lock.unlock();
    task_();
    lock.lock();
    is_running_ = false;
    changed_.notify_all();
  }
}

int ExecuteSteps(const ChunkingConfig& chunking, int n_action_steps, int delay) {
  if (chunking.execute > n_action_steps) {
    throw ConfigError(
        "env_runner.chunking.execute: expected at most n_action_steps = {}, the length of a chunk, "
        "found {}",
        n_action_steps, chunking.execute);
  }
  return chunking.execute > 0 ? chunking.execute : std::max(1, n_action_steps - delay);
}

ControlLoop::ControlLoop(ChunkPlanner& planner, const ShapeMeta& shape_meta,
                         const Horizons& horizons, const LoopOptions& options)
    : planner_(planner),
      action_dim_(shape_meta.action_dim()),
      options_(Checked(options)),
      input_(shape_meta.obs),
      history_(shape_meta.obs, horizons.n_obs_steps),
      queue_(horizons.n_action_steps, static_cast<std::size_t>(action_dim_),
             ExecuteSteps(options.chunking, horizons.n_action_steps, options.latency_steps),
             horizons.temporal_ensemble_coeff,
             options.chunking.method == ChunkingMethod::kStateRollForward),
      obs_(MakeObsBatch(shape_meta.obs, planner.batch_size(), horizons.n_obs_steps)) {
  chunks_.resize(static_cast<std::size_t>(planner.batch_size()) * queue_.chunk().size());
  if (options.correction != nullptr) {
    window_ = MakeObsBatch(shape_meta.obs, /*n_rows=*/1, horizons.n_obs_steps);
    corrected_.reserve(static_cast<std::size_t>(action_dim_));
    layers_ = options.correction->MakeLayerValues();
  }
  if (options.chunking.method == ChunkingMethod::kStateRollForward) {
    RequireFits(options.chunking.followed, shape_meta);
  }
  if (options.latency_steps > 0) {
    background_ = std::make_unique<BackgroundTask>([this] { Plan(); });
  }
}

void ControlLoop::WarmUp() {
  StartPlan();
  AwaitPlan({});
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ControlLoop::Reset(std::uint64_t seed) {
  if (std::exchange(awaits_plan_, false) && background_ != nullptr) background_->Wait();
  failure_ = nullptr;
  queue_.Clear();
  next_ = 0;
  step_ = 0;
  seed_ = seed;
}

std::span<const float> ControlLoop::Act(std::span<const ObsView> obs) {
  const Clock::time_point start = Clock::now();
  if (!seed_) {
    throw UsageError(
        "Act was called before Reset; expected Reset at the beginning of each episode");
  }
  Observe(obs);
  const std::uint64_t step = step_++;

  ActTiming timing;
  while (next_ == queue_.n_steps()) {
    if (!awaits_plan_) {
      AskForPlan(step);
    } else if (AwaitPlan(start)) {
      TakePlan();
      timing.plan_s = plan_s_;
    } else {
      queue_.Hold();
      timing.is_late = true;
    }
  }
  timing.is_stale = queue_.is_stale(next_);
  const std::span<const float> action = Corrected(next_++);
  timing.act_s = core::SecondsSince(start);
  timing.has_missed_deadline =
      timing.is_late || (options_.deadline_s > 0.0 && timing.act_s > options_.deadline_s);
  Count(timing);
  return action;
}

// What is executed in a step of the queue, [Da].
std::span<const float> ControlLoop::Corrected(int step) {
  const std::span<const float> planned = queue_.action(step);
  if (options_.correction == nullptr) return planned;
  history_.CopyWindows(0, &window_);
  corrected_.assign(planned.begin(), planned.end());
  options_.correction->Correct(window_, queue_.place(step), corrected_, &layers_);
  return corrected_;
}

void ControlLoop::AwaitPlanner() {
  if (awaits_plan_ && background_ != nullptr) background_->Wait();
}

void ControlLoop::Observe(std::span<const ObsView> obs) {
  input_.CopyTo(&history_, obs);
  if (step_ == 0) {
    history_.PushAsFirst();
  } else {
    history_.Push();
  }
}

void ControlLoop::AskForPlan(std::uint64_t step) {
  history_.CopyWindows(0, &obs_);  // the planning thread copies it to the other rows
  queue_.Ask(options_.latency_steps);
  row_ = {.seed = *seed_,
          .env_step = step,
          .committed = queue_.committed(),
          .delay = options_.latency_steps};
  if (options_.chunking.method == ChunkingMethod::kStateRollForward) {
    RollForward(options_.chunking.followed, row_, action_dim_, /*place=*/0, &obs_);
  }
  next_ = 0;
  awaits_plan_ = true;
  StartPlan();
}

// Whether the plan is there. Without a previous chunk there is nothing to do but wait.
bool ControlLoop::AwaitPlan(Clock::time_point act_start) {
  if (background_ == nullptr) return true;
  if (options_.deadline_s == 0.0 || !queue_.can_hold()) return background_->Wait();
  const std::chrono::duration<double> time(options_.deadline_s);
  return background_->Wait(act_start + std::chrono::duration_cast<Clock::duration>(time));
}

void ControlLoop::TakePlan() {
  awaits_plan_ = false;
  if (failure_ != nullptr) {
    ++counts_.n_failed_plans;
    queue_.Abandon();
    next_ = 0;
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  std::ranges::copy(std::span(chunks_).first(queue_.chunk().size()), queue_.chunk().begin());
  queue_.Take();
  ++counts_.n_plans;
}

void ControlLoop::StartPlan() {
  if (background_ == nullptr) {
    Plan();
  } else {
    background_->Start();
  }
}

// The caller of Act gets what is thrown here, when it needs the plan.
void ControlLoop::Plan() noexcept {
  const Clock::time_point start = Clock::now();
  try {
    RepeatFirstRow(1, &obs_);
    planner_.Plan(obs_, std::span(&row_, 1), chunks_);
    if (const std::string known = planner_.FaultOf(0); !known.empty()) throw EnvError("{}", known);
    const auto fault =
        NonFiniteAction(std::span(chunks_).first(queue_.chunk().size()), action_dim_);
    if (fault) throw NumericError("the policy planned a {}", *fault);
  } catch (Error& error) {
    error.AddContext(fmt::format("in the plan at step {} of seed {}", row_.env_step, row_.seed));
    failure_ = std::current_exception();
  } catch (...) {
    failure_ = std::current_exception();
  }
  plan_s_ = core::SecondsSince(start);
}

void ControlLoop::Count(const ActTiming& timing) {
  timing_ = timing;
  ++counts_.n_acts;
  counts_.n_missed_deadlines += timing.has_missed_deadline ? 1 : 0;
}

}  // namespace dp_bench::control
