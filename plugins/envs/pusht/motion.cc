#include "motion.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "dp_bench/config_keys.h"
#include "dp_bench/error.h"
#include "dp_bench/random.h"
#include "pusht_physics.h"

namespace dp_bench::pusht {
namespace {

constexpr int kStepsPerTurn = 5;      // the rates of turn hold for so many steps
constexpr double kStartReach = 60.0;  // of the goal's first offset, in x and in y [px]
constexpr double kGoalReach = 120.0;  // the goal turns back at this offset [px]
constexpr double kMostSteps = 1.0e9;  // of a state

// Streams of kEnvStart, next to those of perturbation.cc.
constexpr std::uint64_t kGoalDraws = 3;
constexpr std::uint64_t kWindDraws = 4;

Wandering ReadWandering(const Config& params, const char* name, const char* meaning) {
  Wandering wandering;
  wandering.is_given = params.Has(name);
  if (!wandering.is_given) return wandering;
  const ConfigKeys keys(params.Sub(name, meaning));
  keys("speed", &wandering.speed, 0.0, 200.0, "px/s; 0 = at rest");
  keys("turn", &wandering.turn, 0.0, 10.0,
       "its direction turns by at most this [rad/s], at a rate drawn every 0.5 s; 0 = straight on");
  return wandering;
}

/// Uniform in [-1, 1).
double Draw(std::uint64_t seed, std::uint64_t stream, double segment) {
  // segment 0 belongs to the start
  return 2.0 * RandomStream(seed, StreamId::kEnvStart, stream,
                            static_cast<std::uint32_t>(segment) + 1)
                   .UniformDouble() -
         1.0;
}

Point Velocity(double speed, double direction) {
  return {speed * std::cos(direction), speed * std::sin(direction)};
}

}  // namespace

MotionParams MotionParams::FromConfig(const Config& params) {
  MotionParams p;
  p.goal = ReadWandering(params, "goal_motion",
                         "the goal moves, from a place and in a direction drawn from the seed");
  p.wind = ReadWandering(params, "wind",
                         "a block that nothing touches moves, in a direction drawn from the seed");
  p.is_following = params.Has("follow");
  if (!p.is_following) return p;
  const Config follow = params.Sub(
      "follow", "another task: the agent itself must stay on the moving goal; the T is no part");
  if (!p.goal.is_given) {
    throw Error(ErrorCode::kConfig, follow.Where("") + ": needs the param goal_motion");
  }
  const ConfigKeys keys(follow);
  keys("radius", &p.follow_radius, 1.0, 200.0, "the agent's distance from the goal [px]");
  keys("hold_steps", &p.hold_steps, 1, 1000000, "an episode succeeds after so many steps on end");
  return p;
}

void WorldMotion::Begin(std::uint64_t seed) {
  seed_ = seed;
  step_ = 0.0;
  now_ = {};
  if (params_.goal.is_given) {
    RandomStream random(seed, StreamId::kEnvStart, kGoalDraws);
    now_.goal.x = kStartReach * (2.0 * random.UniformDouble() - 1.0);
    now_.goal.y = kStartReach * (2.0 * random.UniformDouble() - 1.0);
    goal_direction_ = 2.0 * kPi * random.UniformDouble();
  }
  if (params_.wind.is_given) {
    RandomStream random(seed, StreamId::kEnvStart, kWindDraws);
    wind_direction_ = 2.0 * kPi * random.UniformDouble();
  }
  SetVelocities();
}

void WorldMotion::Advance() {
  if (!params_.is_given()) return;
  now_.goal = MovedBy(now_.goal, now_.goal_velocity, kPeriod);
  goal_direction_ += kPeriod * now_.goal_turn;
  wind_direction_ += kPeriod * wind_turn_;
  step_ += 1.0;
  // the goal bounces off a circle
  const double reach = std::hypot(now_.goal.x, now_.goal.y);
  const Point velocity = Velocity(1.0, goal_direction_);
  const double outward = (now_.goal.x * velocity.x + now_.goal.y * velocity.y) / reach;
  if (reach > kGoalReach && outward > 0.0) {
    goal_direction_ = std::atan2(velocity.y - 2.0 * outward * now_.goal.y / reach,
                                 velocity.x - 2.0 * outward * now_.goal.x / reach);
  }
  SetVelocities();
}

void WorldMotion::SetVelocities() {
  const double segment = std::floor(step_ / kStepsPerTurn);
  if (params_.goal.is_given) {
    now_.goal_turn = params_.goal.turn * Draw(seed_, kGoalDraws, segment);
    now_.goal_velocity = Velocity(params_.goal.speed, goal_direction_);
  }
  if (params_.wind.is_given) {
    wind_turn_ = params_.wind.turn * Draw(seed_, kWindDraws, segment);
    now_.wind = Velocity(params_.wind.speed, wind_direction_);
  }
}

void WorldMotion::GetState(std::span<double> state) const {
  std::ranges::copy(std::array{now_.goal.x, now_.goal.y, goal_direction_, wind_direction_, step_},
                    state.begin());
}

void WorldMotion::SetState(std::uint64_t seed, std::span<const double> state) {
  if (state[4] < 0.0 || state[4] > kMostSteps || state[4] != std::floor(state[4])) {
    throw Error(ErrorCode::kEnv,
                fmt::format("expected a number of steps in the state, found {}", state[4]));
  }
  seed_ = seed;
  now_.goal = {state[0], state[1]};
  goal_direction_ = state[2];
  wind_direction_ = state[3];
  step_ = state[4];
  SetVelocities();
}

void FollowGoal(const Motion& motion, std::span<float> action) {
  // The agent lags behind a moving target. The target stands still for a control period, which
  // costs half of one.
  constexpr double kAhead = kLag + 0.5 * kPeriod;
  // the direction half way, to follow an arc
  const double c = std::cos(0.5 * kAhead * motion.goal_turn);
  const double s = std::sin(0.5 * kAhead * motion.goal_turn);
  const Point& v = motion.goal_velocity;
  action[0] = static_cast<float>(kGoalPose.x + motion.goal.x + kAhead * (c * v.x - s * v.y));
  action[1] = static_cast<float>(kGoalPose.y + motion.goal.y + kAhead * (s * v.x + c * v.y));
}

}  // namespace dp_bench::pusht
