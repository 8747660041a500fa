// Places objects, and writes their poses.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "dp_bench/random.h"
#include "kuavo_model.h"

namespace dp_bench::kuavo_dualarm {

/// An interval that a start value is drawn from.
struct Range {
  double low;
  double high;
};

/// Uniform in the range, narrowed to `spread` of its width about its middle.
double Draw(RandomStream& random, const Range& range, double spread);

/// Places a free body upright with a yaw [rad], at rest. `qpos`: the first index of its joint.
void PlaceFreeBody(mjData& data, int qpos, const std::array<double, 3>& position, double yaw);

/// Places a mocap body on the table at a position drawn from the ranges. `mocap`: its row in
/// data.mocap_pos.
void PlaceOnTable(mjData& data, int mocap, RandomStream& random, const Range& x, const Range& y,
                  double spread);

/// A free body by name: its body, and the first index of its joint's coordinates.
struct FreeBody {
  int body;
  int qpos;
  int dof;

  FreeBody(const KuavoModel& model, const std::string& name);
  std::span<const double, 3> Position(const mjData& data) const;
  std::span<const double, 9> Rotation(const mjData& data) const;  // row major
  double Speed(const mjData& data) const;                         // [m/s]
};

/// Position in the frame of another body.
std::array<double, 3> PositionIn(const mjData& data, int frame_body,
                                 std::span<const double, 3> world_position);

/// Writes position [m] and the first two columns of the rotation matrix; returns the rest of the
/// buffer.
inline constexpr std::size_t kPoseSize = 9;
std::span<float> WritePose(const mjData& data, const FreeBody& object, std::span<float> out);
std::span<float> WriteNumbers(std::span<const double> numbers, std::span<float> out);

}  // namespace dp_bench::kuavo_dualarm
