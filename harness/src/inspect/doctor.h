// What this machine offers to dp_bench, and what is missing: tried, not only looked up.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plugin/catalogue.h"

namespace dp_bench::inspect {

/// kMissing: dp_bench works without it, but some of its abilities do not. kBroken: needs repair.
enum class Health { kOk, kMissing, kBroken };

/// The result of one check.
struct Checkup {
  std::string subject;  // "memory", "env pusht"
  Health health = Health::kOk;
  std::string found;        // what there is, or why it does not work
  std::string advice = {};  // what to do; empty if nothing
};

/// What the caller knows of this program.
struct MachineQuery {
  plugin::PluginCatalogue& catalogue;
  std::vector<std::filesystem::path> config_dirs;
  std::string mpi;  // core::MpiVersion()
};

/// Checks processor, memory, folders, LibTorch and its devices, MPI, display, films and every
/// plugin. An env is created in a process of its own in each observation mode, takes one step and
/// draws one picture; a crash is a result like any other. `report` gets each result when it is
/// known.
void CheckMachine(const MachineQuery& query, const std::function<void(const Checkup&)>& report);

/// One or two lines: the result, and the advice if there is one.
std::string ToText(const Checkup& checkup);

/// {"subject", "health": "ok", "missing" or "broken", "found", "advice"}.
nlohmann::json ToJson(const Checkup& checkup);

}  // namespace dp_bench::inspect
