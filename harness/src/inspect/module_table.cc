// See module_table.h.
#include "inspect/module_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace dp_bench::inspect {
namespace {

// 4598018 -> "4,598,018"
std::string Grouped(std::int64_t n) {
  const std::string digits = std::to_string(n);
  std::string grouped;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}

std::string Indented(const train::ModuleSize& module) {
  return std::string(2 * static_cast<std::size_t>(module.depth), ' ') + module.name;
}

}  // namespace

std::string ModuleTable(const std::vector<train::ModuleSize>& modules, std::int64_t n_parameters) {
  std::size_t width = 0;
  for (const train::ModuleSize& module : modules) width = std::max(width, Indented(module).size());
  std::string table =
      fmt::format("{:<{}}  {:>14}   {:>7}\n", "module", width, "parameters", "share");
  for (const train::ModuleSize& module : modules) {
    table += fmt::format(
        "{:<{}}  {:>14}   {:>5.1f} %\n", Indented(module), width, Grouped(module.n_parameters),
        100.0 * static_cast<double>(module.n_parameters) / static_cast<double>(n_parameters));
  }
  return table + fmt::format("{:<{}}  {:>14}\n", "total", width, Grouped(n_parameters));
}

nlohmann::json ModuleList(const std::vector<train::ModuleSize>& modules) {
  nlohmann::json list = nlohmann::json::array();
  for (const train::ModuleSize& module : modules) {
    list.push_back(
        {{"name", module.name}, {"depth", module.depth}, {"parameters", module.n_parameters}});
  }
  return list;
}

}  // namespace dp_bench::inspect
