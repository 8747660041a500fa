// pick_place: a cube on the table is put into a tray.
#include "cube_into_tray.h"
#include "dp_bench/plugin.h"

namespace dp_bench::kuavo_dualarm {
namespace {

constexpr CubeAndTray kPickPlaceStart = {.cube_height = kTableTop + kCubeHalf,
                                         .cube_x = {0.28, 0.40},
                                         .cube_y = {-0.38, -0.16},
                                         .tray_y = {-0.04, 0.0}};

class PickPlaceTask final : public CubeIntoTrayTask {
 public:
  PickPlaceTask(const KuavoModel& model, const TaskSettings& /*settings*/)
      : CubeIntoTrayTask(model, kPickPlaceStart) {}
};

}  // namespace

const TaskKind kPickPlace = {"pick_place", "Put the cube into the tray with the right hand.",
                             &CreateInstance<Task, PickPlaceTask>,
                             &CreateInstance<Script, CubeIntoTrayScript>};

}  // namespace dp_bench::kuavo_dualarm
