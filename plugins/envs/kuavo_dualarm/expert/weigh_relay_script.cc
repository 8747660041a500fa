// weigh_relay: the right hand puts the parcel on the scale, the left one brings it to the goal.
#include <cmath>

#include "pick_and_place.h"
#include "scripts.h"

namespace dp_bench::kuavo_dualarm {
namespace {

constexpr double kGoalRadius = 0.06;     // slightly less than the disc [m]
constexpr double kClearance = 0.004;     // from the parcel to the ground at release [m]
constexpr double kHandedOver = 0.15;     // from the right hand to the parcel [m]
constexpr double kRestingHeight = 0.06;  // parcel's middle above the ground, at most [m]

class WeighRelayScript final : public Script {
 public:
  explicit WeighRelayScript(const KuavoModel& model)
      : model_(model),
        parcel_(model.Geom("parcel_geom")),
        scale_(model.Geom("scale_geom")),
        goal_(model.Body("goal")),
        right_(model, Side::kRight, parcel_),
        left_(model, Side::kLeft, parcel_) {}

  void Begin(RandomStream& random) override {
    right_.Begin(random);
    left_.Begin(random);
    is_handed_over_ = false;
  }

  ArmGoals Plan(const SceneView& scene) override {
    const double* parcel = &scene.data.geom_xpos[3 * parcel_];
    is_handed_over_ = is_handed_over_ || IsHandedOver(scene);
    if (!is_handed_over_) {
      const double* scale = &scene.data.geom_xpos[3 * scale_];
      const PlaceTarget target = {scale[0], scale[1], ScaleTop(scene.data) + kClearance};
      return {ArmGoal{}, right_.Plan(scene, target, IsOnScale(scene.data))};
    }
    const double* goal = &scene.data.xpos[3 * goal_];
    const PlaceTarget target = {goal[0], goal[1], kTableTop + kClearance};
    const bool is_there = std::hypot(parcel[0] - goal[0], parcel[1] - goal[1]) < kGoalRadius &&
                          parcel[2] < kTableTop + kRestingHeight;
    return {left_.Plan(scene, target, is_there), ArmGoal{}};
  }

 private:
  /// The scale weighs the parcel while the right hand moves away. After a takeover, the left hand
  /// may have the parcel already.
  bool IsHandedOver(const SceneView& scene) const {
    const auto distance_to_parcel = [&](Side side) {
      const double* parcel = &scene.data.geom_xpos[3 * parcel_];
      return Distance(scene.hands[Index(side)].pinch.position, {parcel[0], parcel[1], parcel[2]});
    };
    const double from_right = distance_to_parcel(Side::kRight);
    return distance_to_parcel(Side::kLeft) < from_right ||
           (IsOnScale(scene.data) && from_right > kHandedOver);
  }

  double ScaleTop(const mjData& data) const {
    return data.geom_xpos[3 * scale_ + 2] + model_.model()->geom_size[3 * scale_ + 2];
  }

  bool IsOnScale(const mjData& data) const {
    const double* parcel = &data.geom_xpos[3 * parcel_];
    const double* scale = &data.geom_xpos[3 * scale_];
    const double* half_size = &model_.model()->geom_size[3 * scale_];
    return std::abs(parcel[0] - scale[0]) < half_size[0] &&
           std::abs(parcel[1] - scale[1]) < half_size[1] && parcel[2] > ScaleTop(data) &&
           parcel[2] < ScaleTop(data) + kRestingHeight;
  }

  const KuavoModel& model_;
  int parcel_;
  int scale_;
  int goal_;
  PickAndPlace right_;
  PickAndPlace left_;
  bool is_handed_over_ = false;
};

}  // namespace

std::unique_ptr<Script> MakeWeighRelayScript(const KuavoModel& model) {
  return std::make_unique<WeighRelayScript>(model);
}

}  // namespace dp_bench::kuavo_dualarm
