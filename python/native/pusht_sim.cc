#include "pusht_sim.h"

#include <algorithm>
#include <cmath>

#include "coverage.h"
#include "legacy_random.h"

namespace dp_bench::python {

using pusht::kBlockCog;
using pusht::Point;
using pusht::PushtState;

PushtStart LegacyStart(std::uint64_t seed) {
  pusht::LegacyRandomState random(seed);
  PushtStart start;
  for (std::size_t i = 0; i < 4; ++i) {
    start[i] = static_cast<double>(i < 2 ? random.RandInt(50, 450) : random.RandInt(100, 400));
  }
  start[4] = random.Randn() * 2.0 * pusht::kPi - pusht::kPi;
  return start;
}

void PushtSim::Reset(const PushtStart& start) {
  PushtState state;
  state.agent = {start[0], start[1]};
  const double c = std::cos(start[4]);
  const double s = std::sin(start[4]);
  // pymunk keeps the position of the centre of gravity; this order has the bits of its rounding
  state.block = {(start[2] + kBlockCog.x) - (c * kBlockCog.x - s * kBlockCog.y),
                 (start[3] + kBlockCog.y) - (s * kBlockCog.x + c * kBlockCog.y), start[4]};
  physics_.SetState(state);
  physics_.Substep();
  coverage_ = 0.0;
  is_success_ = false;
}

void PushtSim::Step(const Point& target) {
  physics_.StepTowards(target);
  coverage_ = pusht::Coverage(physics_.state().block);
  is_success_ = coverage_ > kSuccessCoverage;
}

double PushtSim::reward() const { return std::clamp(coverage_ / kSuccessCoverage, 0.0, 1.0); }

void PushtSim::WriteState(std::span<double, kStateSize> state) const {
  const PushtState& now = physics_.state();
  state[0] = now.agent.x;
  state[1] = now.agent.y;
  state[2] = now.block.x;
  state[3] = now.block.y;
  state[4] = pusht::WrapAngle(now.block.angle);
}

void PushtSim::WriteKeypoints(std::span<double, kKeypointsSize> keypoints) const {
  std::ranges::copy(pusht::EnvironmentState(physics_.state().block), keypoints.begin());
}

}  // namespace dp_bench::python
