// Turns actions at 10 Hz into servo targets at 500 Hz.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "kuavo_model.h"

namespace dp_bench::kuavo_dualarm {

inline constexpr double kControlHz = 10.0;
inline constexpr int kSubsteps = 50;             // per control step, of 2 ms
inline constexpr double kMaxTargetSpeed = 10.0;  // [rad/s] per target; the limit of the real robot

using Command = std::array<double, kActionDim>;

/// Servo targets that move linearly from one command to the next over a control step, delayed by at
/// most one control step.
class Controller {
 public:
  explicit Controller(const KuavoModel& model);

  /// Bounds of an action: joint ranges [rad], and 0..1 for grippers.
  const Command& low() const { return low_; }
  const Command& high() const { return high_; }

  /// Holds a command, as if it had been given long ago.
  void Hold(const Command& command);

  /// Takes the command of the next control step. Clamps it to the bounds, and joints also to what
  /// they can reach from the previous command at kMaxTargetSpeed.
  void SetCommand(const Command& command);

  /// Writes the servo targets at the end of physics step `substep` of the control step.
  void WriteTargets(int substep, double delay, mjData& data) const;

  /// The two latest commands, older first: its entire state between control steps.
  static constexpr std::size_t kStateSize = 2 * kActionDim;
  void GetState(std::span<double> state) const;
  void SetState(std::span<const double> state);

 private:
  std::array<int, kActionDim> actuator_;
  Command scale_;  // servo target per unit of command
  Command low_;
  Command high_;
  std::array<Command, 3> commands_ = {};  // oldest first
};

}  // namespace dp_bench::kuavo_dualarm
