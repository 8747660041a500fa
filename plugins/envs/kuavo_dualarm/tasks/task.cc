#include "task.h"

#include <algorithm>

#include "bimanual_lift.h"
#include "dp_bench/error.h"
#include "pick_place.h"
#include "weigh_relay.h"

namespace dp_bench::kuavo_dualarm {

const std::vector<std::string>& TaskNames() {
  static const std::vector<std::string> names = {"pick_place", "bimanual_lift", "weigh_relay"};
  return names;
}

const std::string& Name(TaskKind kind) { return TaskNames()[static_cast<std::size_t>(kind)]; }

TaskKind ParseTask(const std::string& name) {
  const auto found = std::find(TaskNames().begin(), TaskNames().end(), name);
  DPB_ASSERT(found != TaskNames().end());
  return static_cast<TaskKind>(found - TaskNames().begin());
}

std::unique_ptr<Task> MakeTask(TaskKind kind, const KuavoModel& model) {
  switch (kind) {
    case TaskKind::kPickPlace:
      return std::make_unique<PickPlaceTask>(model);
    case TaskKind::kBimanualLift:
      return std::make_unique<BimanualLiftTask>(model);
    case TaskKind::kWeighRelay:
      return std::make_unique<WeighRelayTask>(model);
  }
  DPB_ASSERT(false);
  return nullptr;
}

}  // namespace dp_bench::kuavo_dualarm
