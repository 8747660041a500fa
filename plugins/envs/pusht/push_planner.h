// Finds the next push by search in the simulation. It sketches sampled pushes, refines the best one
// of each stretch of the contour, and ranks these with the push that could follow.
#pragma once

#include <vector>

#include "dp_bench/random.h"
#include "motion.h"
#include "push_walk.h"
#include "pusht_physics.h"

namespace dp_bench::pusht {

/// Plans on a separate simulation. Equal states and streams give equal plans. Allocates nothing
/// after construction.
class PushPlanner {
 public:
  static constexpr int kMaxPlanSteps = 120;

  /// `success_threshold`: the coverage that ends an episode.
  explicit PushPlanner(double success_threshold);

  /// Writes the targets of the agent [px] for the best push found, one per control period. There
  /// are at most kMaxPlanSteps, and float32 represents them exactly. `from` is the target of the
  /// previous period. What moves by itself is expected to keep its velocity. False if no push can
  /// be reached.
  bool Plan(const PushtState& state, const Motion& motion, const Point& from, RandomStream random,
            std::vector<Point>* targets);

 private:
  /// The cost of a push and the remaining error; `rest` is infinite for an impossible push.
  struct Outcome {
    double effort = 0.0;
    double rest = 0.0;
    double steps = 0.0;
    double cost() const { return effort + rest; }
  };
  struct Candidate {
    Push push;
    Outcome outcome;
  };

  static Push Sample(double contact, RandomStream* random);
  static Push Vary(const Push& push, double width, RandomStream* random);

  bool IsSolved(const Pose& block, double error) const;
  Outcome Judge(const Push& push, double steps, const Point& goal) const;
  Candidate Sketch(const PushtState& state, const RouteMap& routes, double steps_before, Push push);
  Outcome Try(const PushtState& state, const RouteMap& routes, const Push& push,
              std::vector<Point>* targets);
  void SketchAll(const PushtState& state, const RouteMap& routes, RandomStream* random);
  void Refine(const PushtState& state, const RouteMap& routes, RandomStream* random);
  double CostWithNext(const PushtState& state, const RouteMap& routes, const Candidate& candidate,
                      RandomStream* random);

  double success_threshold_;
  Motion motion_;
  PushtPhysics physics_;
  std::vector<Candidate> candidates_;
};

}  // namespace dp_bench::pusht
