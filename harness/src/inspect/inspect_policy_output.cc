// The output forms of a PolicyInspection: text tables and JSON.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "inspect/inspect_policy.h"
#include "inspect/module_table.h"

namespace dp_bench::inspect {
namespace {

constexpr const char* kDevice = "cpu";
constexpr const char* kPrecision = "float32";

std::string StageTable(const PolicyInspection& inspection) {
  if (inspection.stages.empty()) return "the policy names no stages\n";
  std::size_t width = 0;
  for (const policy::Stage& stage : inspection.stages) width = std::max(width, stage.name.size());
  std::string table = fmt::format("{:<{}}  {:<22} {}\n", "stage", width, "shape", "dtype");
  for (const policy::Stage& stage : inspection.stages) {
    table +=
        fmt::format("{:<{}}  {:<22} {}\n", stage.name, width, ToString(stage.shape), stage.dtype);
  }
  return table;
}

std::string MemoryTable(const PolicyInspection& inspection) {
  const train::HeldMemory& held = inspection.held;
  std::string table =
      fmt::format("memory of a training step in MiB, {} on {}\n", kPrecision, kDevice);
  for (const auto& [name, bytes] :
       {std::pair("parameters and buffers", held.parameters),
        std::pair("gradients", held.gradients), std::pair("optimizer", held.optimizer),
        std::pair("EMA", held.ema), std::pair("copy for checkpoints", held.checkpoint)}) {
    table += fmt::format("  {:<24} {:>10.1f}\n", name, train::Mebibytes(bytes));
  }
  table +=
      fmt::format("{:>12} {:>10} {:>13} {:>10}\n", "batch size", "batch", "activations", "total");
  for (const train::StepMemory& step : inspection.steps) {
    table += fmt::format("{:>12} {:>10.1f} {:>13.1f} {:>10.1f}  {}\n", step.batch_size,
                         train::Mebibytes(step.batch), train::Mebibytes(step.activations),
                         train::Mebibytes(held.total() + step.total()),
                         step.is_estimated ? "estimated" : "measured");
  }
  table += fmt::format(
      "Activations: the peak during loss and backward pass. Estimates lie on the\n"
      "straight line through batch sizes {} and {}. Only tensors count: libraries and the\n"
      "allocator's reserve come on top.\n",
      inspection.measured[0].batch_size, inspection.measured[1].batch_size);
  if (!inspection.check) return table;
  const train::MemoryCheck& check = *inspection.check;
  return table +
         fmt::format(
             "checked at batch size {}: estimated {:.1f}, measured {:.1f}, {:.1f} % apart\n",
             check.measured.batch_size, train::Mebibytes(check.estimated.total()),
             train::Mebibytes(check.measured.total()), 100.0 * check.deviation());
}

nlohmann::json StepJson(const train::StepMemory& step) {
  return {{"batch_size", step.batch_size},
          {"batch", step.batch},
          {"activations", step.activations},
          {"is_estimated", step.is_estimated}};
}

nlohmann::json MemoryJson(const PolicyInspection& inspection) {
  const train::HeldMemory& held = inspection.held;
  nlohmann::json memory = {{"unit", "byte"},
                           {"device", kDevice},
                           {"dtype", kPrecision},
                           {"parameters", held.parameters},
                           {"gradients", held.gradients},
                           {"optimizer", held.optimizer},
                           {"ema", held.ema},
                           {"checkpoint_copy", held.checkpoint},
                           {"measured", nlohmann::json::array()},
                           {"steps", nlohmann::json::array()}};
  for (const train::StepMemory& step : inspection.measured)
    memory["measured"].push_back(StepJson(step));
  for (const train::StepMemory& step : inspection.steps) {
    nlohmann::json row = StepJson(step);
    row["total"] = held.total() + step.total();
    memory["steps"].push_back(row);
  }
  if (inspection.check) {
    memory["check"] = {{"estimated", StepJson(inspection.check->estimated)},
                       {"measured", StepJson(inspection.check->measured)},
                       {"deviation", inspection.check->deviation()}};
  }
  return memory;
}

}  // namespace

std::string ToText(const PolicyInspection& inspection) {
  return fmt::format("policy {} for {}, batch size {}\n\n", inspection.policy, inspection.task,
                     inspection.batch_size) +
         StageTable(inspection) + "\n" + ModuleTable(inspection.modules, inspection.n_parameters) +
         "\n" + MemoryTable(inspection);
}

nlohmann::json ToJson(const PolicyInspection& inspection) {
  nlohmann::json stages = nlohmann::json::array();
  for (const policy::Stage& stage : inspection.stages) {
    stages.push_back({{"name", stage.name}, {"shape", stage.shape}, {"dtype", stage.dtype}});
  }
  return {{"policy", inspection.policy},
          {"task", inspection.task},
          {"batch_size", inspection.batch_size},
          {"stages", stages},
          {"modules", ModuleList(inspection.modules)},
          {"parameters", inspection.n_parameters},
          {"memory", MemoryJson(inspection)}};
}

}  // namespace dp_bench::inspect
