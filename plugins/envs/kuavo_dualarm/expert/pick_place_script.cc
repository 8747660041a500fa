// pick_place: the right hand puts the cube into the tray; the left one stays at home.
#include <cmath>

#include "pick_and_place.h"
#include "scripts.h"

namespace dp_bench::kuavo_dualarm {
namespace {

constexpr double kTrayHalfWidth = 0.07;  // inside [m]
constexpr double kTrayHeight = 0.03;     // of the walls [m]
constexpr double kClearance = 0.006;     // from the cube to the top of the walls at release [m]

class PickPlaceScript final : public Script {
 public:
  explicit PickPlaceScript(const KuavoModel& model)
      : tray_(model.Body("tray")),
        cube_(model.Geom("cube_geom")),
        hand_(model, Side::kRight, cube_) {}

  void Begin(RandomStream& random) override { hand_.Begin(random); }

  ArmGoals Plan(const SceneView& scene) override {
    const double* tray = &scene.data.xpos[3 * tray_];
    const double* cube = &scene.data.geom_xpos[3 * cube_];
    const bool is_inside = std::abs(cube[0] - tray[0]) < kTrayHalfWidth &&
                           std::abs(cube[1] - tray[1]) < kTrayHalfWidth &&
                           cube[2] < kTableTop + 0.05;
    const PlaceTarget target = {tray[0], tray[1], kTableTop + kTrayHeight + kClearance};
    return {ArmGoal{}, hand_.Plan(scene, target, is_inside)};
  }

 private:
  int tray_;
  int cube_;
  PickAndPlace hand_;
};

}  // namespace

std::unique_ptr<Script> MakePickPlaceScript(const KuavoModel& model) {
  return std::make_unique<PickPlaceScript>(model);
}

}  // namespace dp_bench::kuavo_dualarm
