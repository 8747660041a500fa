#include "placement.h"

#include <algorithm>
#include <cmath>

namespace dp_bench::kuavo_dualarm {

double Draw(RandomStream& random, const Range& range, double spread) {
  const double middle = 0.5 * (range.low + range.high);
  return middle + spread * (random.UniformDouble() - 0.5) * (range.high - range.low);
}

void PlaceFreeBody(mjData& data, int qpos, const std::array<double, 3>& position, double yaw) {
  double* const pose = data.qpos + qpos;
  std::copy(position.begin(), position.end(), pose);
  pose[3] = std::cos(0.5 * yaw);
  pose[4] = 0.0;
  pose[5] = 0.0;
  pose[6] = std::sin(0.5 * yaw);
}

void PlaceOnTable(mjData& data, int mocap, RandomStream& random, const Range& x, const Range& y,
                  double spread) {
  double* const position = data.mocap_pos + 3 * mocap;
  position[0] = Draw(random, x, spread);
  position[1] = Draw(random, y, spread);
  position[2] = kTableTop;
}

FreeBody::FreeBody(const KuavoModel& model, const std::string& name)
    : body(model.Body(name)),
      qpos(model.QposOf(name + "_joint")),
      dof(model.DofOf(name + "_joint")) {}

std::span<const double, 3> FreeBody::Position(const mjData& data) const {
  return std::span<const double, 3>(data.xpos + 3 * body, 3);
}

std::span<const double, 9> FreeBody::Rotation(const mjData& data) const {
  return std::span<const double, 9>(data.xmat + 9 * body, 9);
}

double FreeBody::Speed(const mjData& data) const { return mju_norm3(data.qvel + dof); }

std::array<double, 3> PositionIn(const mjData& data, int frame_body,
                                 std::span<const double, 3> world_position) {
  std::array<double, 3> offset = {};
  mju_sub3(offset.data(), world_position.data(), data.xpos + 3 * frame_body);
  std::array<double, 3> local = {};
  mju_mulMatTVec3(local.data(), data.xmat + 9 * frame_body, offset.data());
  return local;
}

std::span<float> WritePose(const mjData& data, const FreeBody& object, std::span<float> out) {
  out = WriteNumbers(object.Position(data), out);
  const std::span<const double, 9> r = object.Rotation(data);
  return WriteNumbers(std::array{r[0], r[3], r[6], r[1], r[4], r[7]}, out);
}

std::span<float> WriteNumbers(std::span<const double> numbers, std::span<float> out) {
  std::transform(numbers.begin(), numbers.end(), out.begin(),
                 [](double number) { return static_cast<float>(number); });
  return out.subspan(numbers.size());
}

}  // namespace dp_bench::kuavo_dualarm
