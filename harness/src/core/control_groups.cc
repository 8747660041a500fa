#include "core/control_groups.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "core/split.h"

namespace dp_bench::core {
namespace {

namespace fs = std::filesystem;

// Whether "cpu,cpuacct" has "cpu".
bool Lists(std::string_view controllers, std::string_view name) {
  const std::vector<std::string> names = Split(controllers, ',');
  return std::ranges::find(names, name) != names.end();
}

// In processors; none if the group has no quota: "max" in version 2, -1 in version 1.
std::optional<double> QuotaOf(const fs::path& group, bool is_version_2) {
  double quota = 0.0;
  double period = 0.0;
  if (is_version_2) {
    std::ifstream file(group / "cpu.max");
    if (!(file >> quota >> period)) return std::nullopt;
  } else {
    std::ifstream of_quota(group / "cpu.cfs_quota_us");
    std::ifstream of_period(group / "cpu.cfs_period_us");
    if (!(of_quota >> quota) || !(of_period >> period)) return std::nullopt;
  }
  if (quota <= 0.0 || period <= 0.0) return std::nullopt;
  return quota / period;
}

}  // namespace

void ForEachGroup(const fs::path& groups, const fs::path& mount, std::string_view controller,
                  const std::function<void(const fs::path& folder, bool is_version_2)>& visit) {
  std::ifstream lines(groups);  // "0::/a/b", or in version 1 "4:memory:/a/b"
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const bool is_version_2 = line.starts_with("0::");
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!is_version_2 && !Lists(controllers, controller)) continue;
    const fs::path base = is_version_2 ? mount : mount / controller;
    fs::path group = fs::path(line.substr(second + 1)).relative_path();  // it may have colons
    while (true) {
      visit(base / group, is_version_2);
      if (group.empty()) break;
      group = group.parent_path();
    }
  }
}

std::optional<int> ProcessorsInGroups(const fs::path& groups, const fs::path& mount) {
  std::optional<double> least;
  ForEachGroup(groups, mount, "cpu", [&](const fs::path& group, bool is_version_2) {
    const std::optional<double> quota = QuotaOf(group, is_version_2);
    if (quota) least = std::min(least.value_or(*quota), *quota);
  });
  if (!least) return std::nullopt;
  const char* const shares = std::getenv(kQuotaShares);
  const double n_shares = shares != nullptr ? std::max(1, std::atoi(shares)) : 1.0;
  constexpr double kMost = std::numeric_limits<int>::max();
  return static_cast<int>(std::clamp(std::ceil(*least / n_shares), 1.0, kMost));
}

}  // namespace dp_bench::core
