// Executes planned pushes.
#include "pusht_expert.h"

#include <fmt/format.h>

#include <cmath>

#include "dp_bench/error.h"
#include "dp_bench/random.h"

namespace dp_bench::pusht {
namespace {

// Action noise up to about this size does not invalidate a plan.
constexpr double kTolerance = 2.0;  // [px]

}  // namespace

PushtExpert::PushtExpert(double success_threshold) : planner_(success_threshold) {
  targets_.reserve(PushPlanner::kMaxPlanSteps);
}

void PushtExpert::Begin(std::uint64_t seed) {
  seed_ = seed;
  step_ = 0;
  targets_.clear();
  next_ = 0;
  last_target_.reset();
}

void PushtExpert::Act(const PushtState& state, const Motion& motion, std::span<float> action) {
  if (last_target_ && !IsAsPlanned(state, motion)) {
    last_target_.reset();
    next_ = targets_.size();
  }
  if (next_ == targets_.size()) Replan(state, motion);

  const Point& target = targets_[next_++];
  prediction_.StepTowards(target);
  planned_.goal = MovedBy(planned_.goal, planned_.goal_velocity, kPeriod);
  last_target_ = target;
  ++step_;
  action[0] = static_cast<float>(target.x);
  action[1] = static_cast<float>(target.y);
}

bool PushtExpert::IsAsPlanned(const PushtState& state, const Motion& motion) const {
  const PushtState& planned = prediction_.state();
  constexpr double kBlockRadius = 60.0;  // converts its turn into a distance
  return Distance(state.agent, planned.agent) < kTolerance &&
         Distance(motion.goal, planned_.goal) < kTolerance &&
         std::hypot(state.block.x - planned.block.x, state.block.y - planned.block.y) +
                 kBlockRadius * std::abs(state.block.angle - planned.block.angle) <
             kTolerance;
}

void PushtExpert::Replan(const PushtState& state, const Motion& motion) {
  const RandomStream random(seed_, StreamId::kPolicyNoise, step_);
  // a new push starts from the target of the previous one, so that actions do not jump
  if (!planner_.Plan(state, motion, last_target_.value_or(state.agent), random, &targets_)) {
    targets_.clear();
    next_ = 0;
    throw Error(
        ErrorCode::kEnv,
        fmt::format("the expert finds no push: agent at ({:.0f}, {:.0f}), block at "
                    "({:.0f}, {:.0f}, {:.2f} rad); Reset to another seed",
                    state.agent.x, state.agent.y, state.block.x, state.block.y, state.block.angle));
  }
  next_ = 0;
  prediction_.SetWind(motion.wind);
  prediction_.SetState(state);
  planned_ = motion;
}

}  // namespace dp_bench::pusht
