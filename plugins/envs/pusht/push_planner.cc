// Random shooting, then local random search with shrinking steps. Distances are compared by their
// logarithm: halving the error has the same value far away and at the goal.
#include "push_planner.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "coverage.h"

namespace dp_bench::pusht {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// the search
constexpr int kStretches = 24;  // of the contour, with one candidate each
constexpr int kSamplesPerStretch = 20;
constexpr int kRounds = 10;       // of refinement
constexpr double kShrink = 0.7;   // of the search steps, per round
constexpr int kNextSamples = 96;  // for the push that could follow

// the cost
constexpr double kStepsPerEFold = 60.0;  // number of steps that dividing the error by e is worth
constexpr double kTurnRadius = 80.0;     // converts a turn of the block into a distance [px]
constexpr double kErrorFloor = 1.0;      // [px]
constexpr double kErrorSolved = 0.5;     // of any pose that counts as solved [px]
constexpr double kSolvableError = 10.0;  // above this error the coverage is not computed [px]
constexpr double kCrookedness = 0.05;    // prefers straight pushes
constexpr double kLeastMotion = 0.3;     // motion of the block that counts as a push [px]

// pushes
constexpr double kTurnSpread = 0.35;  // [rad]
constexpr double kMaxTurn = 0.7;
constexpr double kBendSpread = 0.006;  // [rad/px]
constexpr double kMaxBend = 0.012;
constexpr double kMinLength = 4.0;  // [px]
constexpr double kMaxLength = 260.0;
constexpr double kStartSpeed = 4.0;  // [px per control period]
constexpr double kStartSteps = 3.0;  // lost while accelerating, in a sketch

/// The block's distance from the goal [px]: its centre of gravity, and its turn times a radius.
double ErrorOf(const Pose& block) {
  static const double goal_cos = std::cos(kGoalPose.angle);
  static const double goal_sin = std::sin(kGoalPose.angle);
  const double c = std::cos(block.angle);
  const double s = std::sin(block.angle);
  const double dx = block.x - s * kBlockCog.y - (kGoalPose.x - goal_sin * kBlockCog.y);
  const double dy = block.y + c * kBlockCog.y - (kGoalPose.y + goal_cos * kBlockCog.y);
  const double turn =
      kTurnRadius * std::atan2(s * goal_cos - c * goal_sin, c * goal_cos + s * goal_sin);
  return std::sqrt(dx * dx + dy * dy + turn * turn);
}

double Moved(const Pose& before, const Pose& after) {
  return std::hypot(after.x - before.x, after.y - before.y) +
         kTurnRadius * std::abs(after.angle - before.angle);
}

/// Where `block` would be if the goal were in its usual place; `goal` is its offset from there.
Pose FromGoal(const Pose& block, const Point& goal) {
  return {block.x - goal.x, block.y - goal.y, block.angle};
}

/// Rounded as the env receives it.
Point Rounded(const Point& p) { return {static_cast<float>(p.x), static_cast<float>(p.y)}; }

}  // namespace

PushPlanner::PushPlanner(double success_threshold) : success_threshold_(success_threshold) {
  candidates_.reserve(kStretches);
}

bool PushPlanner::Plan(const PushtState& state, const Motion& motion, const Point& from,
                       RandomStream random, std::vector<Point>* targets) {
  motion_ = motion;
  const RouteMap routes(state.block, MovedBy(from, motion.wind, -kLag), kClearance);
  SketchAll(state, routes, &random);
  Refine(state, routes, &random);
  const Candidate* best = nullptr;
  double best_cost = kInfinite;
  for (const Candidate& candidate : candidates_) {
    const double cost = CostWithNext(state, routes, candidate, &random);
    if (cost < best_cost) {
      best_cost = cost;
      best = &candidate;
    }
  }
  if (best == nullptr) return false;
  Try(state, routes, best->push, targets);
  return true;
}

Push PushPlanner::Sample(double contact, RandomStream* random) {
  return {.contact = contact,
          .turn = std::clamp(kTurnSpread * random->Normal(), -kMaxTurn, kMaxTurn),
          .bend = std::clamp(kBendSpread * random->Normal(), -kMaxBend, kMaxBend),
          .length = kMaxLength};
}

Push PushPlanner::Vary(const Push& push, double width, RandomStream* random) {
  const auto vary = [&](double value, double spread) {
    return value + width * spread * random->Normal();
  };
  Push varied;
  varied.contact = vary(push.contact, 12.0);
  varied.turn = std::clamp(vary(push.turn, 0.2), -kMaxTurn, kMaxTurn);
  varied.bend = std::clamp(vary(push.bend, 0.004), -kMaxBend, kMaxBend);
  varied.length = std::clamp(vary(push.length, 10.0), kMinLength, kMaxLength);
  return varied;
}

bool PushPlanner::IsSolved(const Pose& block, double error) const {
  return error < kSolvableError && Coverage(block) > success_threshold_;
}

/// The cost of the simulation's current state, reached by `push` after `steps`, with the goal at
/// this offset.
PushPlanner::Outcome PushPlanner::Judge(const Push& push, double steps, const Point& goal) const {
  const Pose block = FromGoal(physics_.state().block, goal);
  const double error = ErrorOf(block);
  const double turn = push.turn / kTurnSpread;
  const double bend = push.bend / kBendSpread;
  return {
      .effort = steps / kStepsPerEFold + kCrookedness * (turn * turn + bend * bend),
      .rest = std::log(IsSolved(block, error) ? kErrorSolved : error + kErrorFloor),
      .steps = steps,
  };
}

/// Pushes as far as possible and picks the best length. The approach is not simulated: it is
/// assumed not to move the block. The sketch is of a world that moves with the wind, in which the
/// block rests; `steps_before` have passed in it.
PushPlanner::Candidate PushPlanner::Sketch(const PushtState& state, const RouteMap& routes,
                                           double steps_before, Push push) {
  Candidate best = {.push = push, .outcome = {.rest = kInfinite}};
  const PushStart start = StartOf(push, state.block);
  const std::optional<Route> route = routes.To(start.point);
  if (!route) return best;
  Route none;
  none.points[none.size++] = start.point;
  PushWalk walk(none, start.heading, push, kPushSpeed);
  const Point goal_velocity = MovedBy(motion_.goal_velocity, motion_.wind, -1.0);
  physics_.SetWind({});
  physics_.SetState(
      {.agent = start.point, .agent_velocity = {}, .block = state.block, .block_velocity = {}});
  double steps = kStartSteps + route->length / kFreeSpeed;
  while (!walk.is_done()) {
    const Point target = walk.Next();
    if (!IsInsideWalls(target)) break;
    physics_.StepTowards(target);
    steps += 1.0;
    if (Moved(state.block, physics_.state().block) < kLeastMotion) continue;
    const Outcome outcome =
        Judge(push, steps, MovedBy(motion_.goal, goal_velocity, kPeriod * (steps_before + steps)));
    if (outcome.cost() >= best.outcome.cost()) continue;
    // the agent lags behind its target
    const Point& agent = physics_.state().agent;
    best.outcome = outcome;
    best.push.length = std::max(kMinLength, Distance(agent, start.point));
  }
  return best;
}

/// Simulates the whole push from `state`, exactly as in the env, and leaves the simulation at its
/// end. `targets` may be null.
PushPlanner::Outcome PushPlanner::Try(const PushtState& state, const RouteMap& routes,
                                      const Push& push, std::vector<Point>* targets) {
  const Outcome impossible = {.rest = kInfinite};
  const PushStart start = StartOf(push, state.block);
  const std::optional<Route> route = routes.To(start.point);
  if (!route) return impossible;
  if (targets != nullptr) targets->clear();
  PushWalk walk(*route, start.heading, push, kStartSpeed);
  physics_.SetWind(motion_.wind);
  physics_.SetState(state);
  int steps = 0;
  Point goal = motion_.goal;
  while (!walk.is_done()) {
    // the walk is in the world that moves with the wind
    const Point target = Rounded(MovedBy(walk.Next(), motion_.wind, kPeriod * steps + kLag));
    const bool is_on_route = walk.is_on_route();
    if (steps == kMaxPlanSteps || (!is_on_route && !IsInsideWalls(target))) return impossible;
    if (targets != nullptr) targets->push_back(target);
    physics_.StepTowards(target);
    ++steps;
    goal = MovedBy(motion_.goal, motion_.goal_velocity, kPeriod * steps);
    const Pose block = FromGoal(physics_.state().block, goal);
    if (IsSolved(block, ErrorOf(block))) break;
  }
  if (Moved(state.block, physics_.state().block) < kLeastMotion) return impossible;
  return Judge(push, steps, goal);
}

/// Fills candidates_ with the best sketch for each stretch of the contour.
void PushPlanner::SketchAll(const PushtState& state, const RouteMap& routes, RandomStream* random) {
  const double spacing = ContourLength() / (kStretches * kSamplesPerStretch);
  candidates_.clear();
  for (int stretch = 0; stretch < kStretches; ++stretch) {
    Candidate best = {.push = {}, .outcome = {.rest = kInfinite}};
    for (int i = 0; i < kSamplesPerStretch; ++i) {
      const double contact = (stretch * kSamplesPerStretch + i + random->UniformDouble()) * spacing;
      const Candidate candidate = Sketch(state, routes, 0.0, Sample(contact, random));
      if (candidate.outcome.cost() < best.outcome.cost()) best = candidate;
    }
    if (best.outcome.rest < kInfinite) candidates_.push_back(best);
  }
}

void PushPlanner::Refine(const PushtState& state, const RouteMap& routes, RandomStream* random) {
  for (Candidate& candidate : candidates_) {
    candidate.outcome = Try(state, routes, candidate.push, nullptr);
    double width = 1.0;
    for (int round = 0; round < kRounds; ++round, width *= kShrink) {
      const Push varied = Vary(candidate.push, width, random);
      const Outcome outcome = Try(state, routes, varied, nullptr);
      if (outcome.cost() < candidate.outcome.cost()) candidate = {varied, outcome};
    }
  }
}

/// The cost of `candidate` with the best sketch of a following push, or of stopping there.
double PushPlanner::CostWithNext(const PushtState& state, const RouteMap& routes,
                                 const Candidate& candidate, RandomStream* random) {
  if (candidate.outcome.rest == kInfinite) return kInfinite;
  Try(state, routes, candidate.push, nullptr);
  PushtState end = physics_.state();
  const double steps = candidate.outcome.steps;
  const Pose block =
      FromGoal(end.block, MovedBy(motion_.goal, motion_.goal_velocity, kPeriod * steps));
  if (IsSolved(block, ErrorOf(block))) return candidate.outcome.cost();
  // back into the world that moves with the wind
  end.block = FromGoal(end.block, MovedBy({}, motion_.wind, kPeriod * steps));
  end.agent = MovedBy(end.agent, motion_.wind, -kPeriod * steps);
  const RouteMap next_routes(end.block, end.agent, kClearance);
  double rest = candidate.outcome.rest;
  for (int i = 0; i < kNextSamples; ++i) {
    const double contact = (i + random->UniformDouble()) * ContourLength() / kNextSamples;
    rest = std::min(rest, Sketch(end, next_routes, steps, Sample(contact, random)).outcome.cost());
  }
  return candidate.outcome.effort + rest;
}

}  // namespace dp_bench::pusht
