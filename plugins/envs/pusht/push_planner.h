// Finds the next push by search in the simulation: sampled pushes are sketched, the best of each
// stretch of the contour are refined, and those are judged by the push that could follow.
#pragma once

#include <dp_bench/random.h>

#include <vector>

#include "push_walk.h"
#include "pusht_physics.h"

namespace dp_bench::pusht {

/// Plans on a simulation of its own. Equal states and streams give equal plans. Allocates nothing
/// once constructed.
class PushPlanner {
 public:
  static constexpr int kMaxPlanSteps = 120;

  /// `success_threshold`: the coverage that ends an episode.
  explicit PushPlanner(double success_threshold);

  /// Writes the targets of the agent [px], one per control period, of the best push found; at most
  /// kMaxPlanSteps, numbers that float32 holds exactly. `from` is where they begin: the target of
  /// the period before. False where no push can be reached.
  bool Plan(const PushtState& state, const Point& from, RandomStream random,
            std::vector<Point>* targets);

 private:
  /// What a push costs and leaves to do; `rest` is infinite for one that cannot be done.
  struct Outcome {
    double effort = 0.0;
    double rest = 0.0;
    double cost() const { return effort + rest; }
  };
  struct Candidate {
    Push push;
    Outcome outcome;
  };

  static Push Sample(double contact, RandomStream* random);
  static Push Vary(const Push& push, double width, RandomStream* random);

  bool IsSolved(const Pose& block, double error) const;
  Outcome Judge(const Push& push, double steps) const;
  Candidate Sketch(const PushtState& state, const RouteMap& routes, Push push);
  Outcome Try(const PushtState& state, const RouteMap& routes, const Push& push,
              std::vector<Point>* targets);
  void SketchAll(const PushtState& state, const RouteMap& routes, RandomStream* random);
  void Refine(const PushtState& state, const RouteMap& routes, RandomStream* random);
  double CostWithNext(const PushtState& state, const RouteMap& routes, const Candidate& candidate,
                      RandomStream* random);

  double success_threshold_;
  PushtPhysics physics_;
  std::vector<Candidate> candidates_;
};

}  // namespace dp_bench::pusht
