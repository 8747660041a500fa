// conveyor_pick: the right hand picks a cube from a belt that carries it away, and puts it into a
// tray; the left one stays at home.
#include <algorithm>
#include <array>
#include <cmath>

#include "expert/pick_and_place.h"
#include "placement.h"
#include "task.h"

namespace dp_bench::kuavo_dualarm {
namespace {

constexpr double kBeltHeight = 0.001;                                // above the table [m]
constexpr double kCubeHalf = 0.02;                                   // [m]
constexpr double kCubeHeight = kTableTop + kBeltHeight + kCubeHalf;  // of its centre on the belt
constexpr double kTrayHalfInside = 0.07;                             // [m]
constexpr double kLift = 0.05;         // [m] above the cube's start height
constexpr double kInTrayBelow = 0.80;  // [m] height of the cube's centre
constexpr double kStillBelow = 0.02;   // [m/s]
constexpr double kOpenBelow = 0.3;     // closure of the gripper
constexpr int kDwellSteps = 5;

constexpr Range kSpeedShare = {0.6, 1.0};  // of the largest speed
constexpr Range kCubeX = {0.30, 0.38};
constexpr Range kCubeY = {-0.18, -0.14};
constexpr Range kCubeYaw = {-45 * kDegree, 45 * kDegree};
constexpr Range kTrayX = {0.28, 0.33};
constexpr Range kTrayY = {-0.02, 0.0};
constexpr std::uint64_t kBeltDraws = 16;  // stream of kEnvStart, behind those of the env
constexpr double kLeavesAt = -0.43;       // y; beyond, the hand cannot follow the cube [m]

/// Solved when the cube lies in the tray, at rest and released, for 5 steps in a row. Reward: 0.3
/// lifted by 5 cm, 0.6 above or in the tray, 1 solved. environment_state: pose of the cube (9), x
/// and y of the tray's centre (2), the belt's speed [m/s] (1). The belt moves to the right, at a
/// speed drawn from the seed.
class ConveyorPickTask final : public Task {
 public:
  ConveyorPickTask(const KuavoModel& model, const TaskSettings& settings)
      : model_(model),
        settings_(settings),
        cube_(model, "cube"),
        cube_geom_(model.Geom("cube_geom")),
        belt_dof_(model.DofOf("belt_joint")),
        belt_motor_(model.Actuator("belt_motor")),
        tray_(model.Body("tray")),
        tray_mocap_(model.MocapOf("tray")) {}

  int max_steps() const override { return 150; }
  bool moves_without_actions() const override { return settings_.belt_speed > 0.0; }
  std::vector<MetricSpec> metrics() const override {
    return {{"lift_height", Aggregate::kMax},      // [m] of the cube
            {"tray_distance", Aggregate::kLast}};  // [m] cube to the tray's centre, horizontally
  }
  std::span<const double> metric_values() const override { return metric_values_; }
  std::size_t environment_state_size() const override { return kPoseSize + 3; }
  std::span<double> counters() override { return {&placed_steps_, 1}; }

  void Start(RandomStream& random, double spread, mjData& data) override {
    const double cube_x = Draw(random, kCubeX, spread);
    const double cube_y = Draw(random, kCubeY, spread);
    const double cube_yaw = Draw(random, kCubeYaw, spread);
    PlaceFreeBody(data, cube_.qpos, {cube_x, cube_y, kCubeHeight}, cube_yaw);
    PlaceOnTable(data, tray_mocap_, random, kTrayX, kTrayY, spread);
    const double speed = settings_.belt_speed * Draw(random, kSpeedShare, spread);
    SetSpeed(speed, data);
    data.qvel[cube_.dof + 1] = -speed;
    placed_steps_ = 0.0;
  }

  void Drive(std::uint64_t seed, std::int64_t step, mjData& data) override {
    constexpr std::int64_t kStepsPerSpeed = 5;
    if (settings_.belt_change == 0.0 || step % kStepsPerSpeed != 0) return;
    RandomStream random(seed, StreamId::kEnvStart, kBeltDraws,
                        static_cast<std::uint32_t>(step / kStepsPerSpeed));
    SetSpeed(settings_.belt_speed * (1.0 - settings_.belt_change * random.UniformDouble()), data);
  }

  TaskOutcome Evaluate(const mjData& data) override {
    const double height = cube_.Position(data)[2];
    const std::array<double, 3> in_tray = PositionIn(data, tray_, cube_.Position(data));
    const bool over_tray = std::max(std::abs(in_tray[0]), std::abs(in_tray[1])) < kTrayHalfInside;
    const bool released = model_.GripperClosure(data, Side::kRight) < kOpenBelow &&
                          !model_.AnyPadTouches(data, Side::kRight, cube_geom_);
    const bool placed =
        over_tray && height < kInTrayBelow && released && cube_.Speed(data) < kStillBelow;
    placed_steps_ = placed ? placed_steps_ + 1.0 : 0.0;

    const double lift = height - kCubeHeight;
    metric_values_ = {lift, std::hypot(in_tray[0], in_tray[1])};
    const bool success = placed_steps_ >= kDwellSteps;
    // the cube can enter the tray only over its wall
    const double reward = success ? 1.0 : over_tray ? 0.6 : lift > kLift ? 0.3 : 0.0;
    return {.reward = reward, .success = success};
  }

  void WriteEnvironmentState(const mjData& data, std::span<float> out) const override {
    out = WritePose(data, cube_, out);
    out = WriteNumbers({data.xpos + 3 * tray_, 2}, out);
    WriteNumbers(std::array{-data.ctrl[belt_motor_]}, out);
  }

 private:
  // The belt has it at once. The motor alone would jerk, which throws the cube.
  void SetSpeed(double speed, mjData& data) const {
    data.ctrl[belt_motor_] = -speed;
    data.qvel[belt_dof_] = -speed;
  }

  const KuavoModel& model_;
  const TaskSettings settings_;
  FreeBody cube_;
  int cube_geom_;
  int belt_dof_;
  int belt_motor_;
  int tray_;
  int tray_mocap_;
  double placed_steps_ = 0.0;
  std::array<double, 2> metric_values_ = {};
};

class ConveyorPickScript final : public Script {
 public:
  explicit ConveyorPickScript(const KuavoModel& model)
      : tray_(model.Body("tray")),
        cube_(model.Geom("cube_geom")),
        belt_motor_(model.Actuator("belt_motor")),
        hand_(model, Side::kRight, cube_) {}

  void Begin(RandomStream& random) override { hand_.Begin(random); }

  ArmGoals Plan(const SceneView& scene) override {
    constexpr double kTrayHeight = 0.03;  // of the walls [m]
    constexpr double kClearance = 0.006;  // from the cube to the top of the walls at release [m]
    const double* tray = &scene.data.xpos[3 * tray_];
    const double* cube = &scene.data.geom_xpos[3 * cube_];
    const bool is_inside = std::abs(cube[0] - tray[0]) < kTrayHalfInside &&
                           std::abs(cube[1] - tray[1]) < kTrayHalfInside && cube[2] < kInTrayBelow;
    const bool is_on_belt = cube[2] < kCubeHeight + 0.5 * kCubeHalf && !is_inside;
    if (is_on_belt && cube[1] < kLeavesAt) return {};  // both hands go home
    hand_.SetBoxVelocity({0.0, is_on_belt ? scene.data.ctrl[belt_motor_] : 0.0, 0.0});
    const PlaceTarget target = {tray[0], tray[1], kTableTop + kTrayHeight + kClearance};
    return {ArmGoal{}, hand_.Plan(scene, target, is_inside)};
  }

 private:
  int tray_;
  int cube_;
  int belt_motor_;
  PickAndPlace hand_;
};

}  // namespace

const TaskKind kConveyorPick = {
    "conveyor_pick",
    "Pick the cube from the moving belt with the right hand and put it into the tray.",
    &MakeFor<Task, ConveyorPickTask, TaskSettings>, &MakeFor<Script, ConveyorPickScript>};

}  // namespace dp_bench::kuavo_dualarm
