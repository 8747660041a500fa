#include "run/run_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/console.h"
#include "core/json.h"
#include "core/progress.h"
#include "dp_bench/error.h"
#include "run/run_files.h"

namespace dp_bench::run {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxCostBytes = std::size_t{1} << 20;
constexpr const char* kProcesses = "processes";
constexpr const char* kOfShard = "is_of_shard";

void VisitCost(const core::JsonFields& fields, core::Cost* c) {
  fields("wall_s", &c->wall_s);
  fields("cpu_s", &c->cpu_s);
  fields("peak_memory_bytes", &c->peak_bytes);
  fields("energy_j", &c->energy_j);
  fields("load_average", &c->load.average);
  fields("n_processors", &c->load.n_processors);
}

std::vector<core::Cost> CostsIn(std::string_view text, const std::string& origin) {
  const Json json = core::ParseJson(text, origin);
  std::vector<core::Cost> costs;
  for (const core::JsonView& entry : core::JsonView(json, origin).Elements(kProcesses)) {
    costs.push_back(core::FromFields<core::Cost>(entry, VisitCost));
  }
  return costs;
}

// Those of the file of a folder, if it has one.
Json EntriesIn(const std::filesystem::path& file) {
  try {
    if (!std::filesystem::exists(file)) return Json::array();
    const std::string text = core::ReadTextFile(file, kMaxCostBytes);
    CostsIn(text, file.string());  // throws
    return core::ParseJson(text, file.string()).at(kProcesses);
  } catch (const Error& error) {
    core::LogWarning("what the run cost before is lost: {}", error.what());
    return Json::array();
  }
}

void WriteEntries(const std::filesystem::path& file, const Json& entries) {
  core::WriteFileAtomically(file, Json{{kProcesses, entries}}.dump(2) + "\n");
}

}  // namespace

void AddCost(const std::filesystem::path& folder, const core::Cost& cost) {
  Json entries = EntriesIn(folder / kCostFile);
  entries.push_back(core::ToFields(cost, VisitCost));
  WriteEntries(folder / kCostFile, entries);
}

void SetShardCosts(const std::filesystem::path& folder, const std::vector<core::Cost>& costs) {
  Json entries = Json::array();
  for (const Json& entry : EntriesIn(folder / kCostFile)) {
    if (!entry.contains(kOfShard)) entries.push_back(entry);
  }
  for (const core::Cost& cost : costs) {
    entries.push_back(core::ToFields(cost, VisitCost));
    entries.back()[kOfShard] = true;
  }
  if (!entries.empty()) WriteEntries(folder / kCostFile, entries);
}

core::Cost ParseCost(std::string_view text, const std::string& origin) {
  core::Cost sum = {.energy_j = 0.0};
  for (const core::Cost& cost : CostsIn(text, origin)) {
    sum.wall_s += cost.wall_s;
    sum.cpu_s += cost.cpu_s;
    sum.peak_bytes = std::max(sum.peak_bytes, cost.peak_bytes);
    if (sum.energy_j && cost.energy_j) {
      *sum.energy_j += *cost.energy_j;
    } else {
      sum.energy_j.reset();
    }
    sum.load = cost.load;
  }
  return sum;
}

std::string Describe(const core::Cost& cost) {
  return fmt::format(
      "{}, CPU time {}, at most {:.0f} MiB of memory{}; {}", core::FormatDuration(cost.wall_s),
      core::FormatDuration(cost.cpu_s), static_cast<double>(cost.peak_bytes) / (1 << 20),
      cost.energy_j ? fmt::format(", {:.3g} kJ of processors and GPUs", 1e-3 * *cost.energy_j) : "",
      Describe(cost.load));
}

std::string Describe(const core::MachineLoad& load) {
  return fmt::format("load average {:.1f} on {} processors", load.average, load.n_processors);
}

}  // namespace dp_bench::run
