// One script per task. The model must outlive it.
#pragma once

#include <memory>

#include "script.h"

namespace dp_bench::kuavo_dualarm {

std::unique_ptr<Script> MakePickPlaceScript(const KuavoModel& model);
std::unique_ptr<Script> MakeBimanualLiftScript(const KuavoModel& model);
std::unique_ptr<Script> MakeWeighRelayScript(const KuavoModel& model);

}  // namespace dp_bench::kuavo_dualarm
