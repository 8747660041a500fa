#include "task.h"

namespace dp_bench::kuavo_dualarm {

std::vector<const TaskKind*> TaskKinds() {
  return {&kPickPlace, &kBimanualLift, &kWeighRelay, &kConveyorPick};
}

std::vector<std::string> TaskNames() {
  std::vector<std::string> names;
  for (const TaskKind* task : TaskKinds()) names.emplace_back(task->name);
  return names;
}

}  // namespace dp_bench::kuavo_dualarm
