// conveyor_pick: a cube on a belt that carries it away is put into a tray.
#include <array>

#include "cube_into_tray.h"
#include "dp_bench/plugin.h"

namespace dp_bench::kuavo_dualarm {
namespace {

constexpr double kBeltHeight = 0.001;  // above the table [m]
constexpr CubeAndTray kConveyorStart = {.cube_height = kTableTop + kBeltHeight + kCubeHalf,
                                        .cube_x = {0.30, 0.38},
                                        .cube_y = {-0.18, -0.14},
                                        .tray_y = {-0.02, 0.0}};
constexpr Range kSpeedShare = {0.6, 1.0};  // of the largest speed
constexpr std::uint64_t kBeltDraws = 16;   // stream of kEnvStart, behind those of the env
constexpr double kLeavesAt = -0.43;        // y; beyond, the hand cannot follow the cube [m]

/// environment_state ends with the belt's speed [m/s] (1). The belt moves to the right, at a speed
/// drawn from the seed.
class ConveyorPickTask final : public CubeIntoTrayTask {
 public:
  ConveyorPickTask(const KuavoModel& model, const TaskSettings& settings)
      : CubeIntoTrayTask(model, kConveyorStart),
        settings_(settings),
        belt_dof_(model.DofOf("belt_joint")),
        belt_motor_(model.Actuator("belt_motor")) {}

  bool moves_without_actions() const override { return settings_.belt_speed > 0.0; }
  std::size_t environment_state_size() const override {
    return CubeIntoTrayTask::environment_state_size() + 1;
  }

  void Start(RandomStream& random, double spread, mjData& data) override {
    CubeIntoTrayTask::Start(random, spread, data);
    const double speed = settings_.belt_speed * Draw(random, kSpeedShare, spread);
    SetSpeed(speed, data);
    data.qvel[cube().dof + 1] = -speed;
  }

  void Drive(std::uint64_t seed, std::int64_t step, mjData& data) override {
    constexpr std::int64_t kStepsPerSpeed = 5;
    if (settings_.belt_change == 0.0 || step % kStepsPerSpeed != 0) return;
    RandomStream random(seed, StreamId::kEnvStart, kBeltDraws,
                        static_cast<std::uint32_t>(step / kStepsPerSpeed));
    SetSpeed(settings_.belt_speed * (1.0 - settings_.belt_change * random.UniformDouble()), data);
  }

  void WriteEnvironmentState(const mjData& data, std::span<float> out) const override {
    CubeIntoTrayTask::WriteEnvironmentState(data, out);
    WriteNumbers(std::array{-data.ctrl[belt_motor_]}, out.last(1));
  }

 private:
  // The belt has it at once. The motor alone would jerk, which throws the cube.
  void SetSpeed(double speed, mjData& data) const {
    data.ctrl[belt_motor_] = -speed;
    data.qvel[belt_dof_] = -speed;
  }

  const TaskSettings settings_;
  int belt_dof_;
  int belt_motor_;
};

class ConveyorPickScript final : public CubeIntoTrayScript {
 public:
  explicit ConveyorPickScript(const KuavoModel& model)
      : CubeIntoTrayScript(model), belt_motor_(model.Actuator("belt_motor")) {}

  ArmGoals Plan(const SceneView& scene) override {
    const double* cube = CubePosition(scene);
    const bool is_on_belt =
        cube[2] < kConveyorStart.cube_height + 0.5 * kCubeHalf && !IsInTray(scene);
    if (is_on_belt && cube[1] < kLeavesAt) return {};  // both hands go home
    hand().SetBoxVelocity({0.0, is_on_belt ? scene.data.ctrl[belt_motor_] : 0.0, 0.0});
    return CubeIntoTrayScript::Plan(scene);
  }

 private:
  int belt_motor_;
};

}  // namespace

const TaskKind kConveyorPick = {
    "conveyor_pick",
    "Pick the cube from the moving belt with the right hand and put it into the tray.",
    &CreateInstance<Task, ConveyorPickTask>, &CreateInstance<Script, ConveyorPickScript>};

}  // namespace dp_bench::kuavo_dualarm
