// The control groups of this process: the limits of containers and batch jobs. Source: cgroups(7),
// versions 1 and 2.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

namespace dp_bench::core {

inline constexpr const char* kOwnGroups = "/proc/self/cgroup";  // lists the groups of this process
inline constexpr const char* kGroupFiles = "/sys/fs/cgroup";    // where their files are

/// Visits the group of the process for a controller, such as "memory", and all above, whose limits
/// hold too. `groups` and `mount`: as the two constants.
void ForEachGroup(
    const std::filesystem::path& groups, const std::filesystem::path& mount,
    std::string_view controller,
    const std::function<void(const std::filesystem::path& folder, bool is_version_2)>& visit);

/// In this variable, the number of processes that share the quotas, such as the jobs of a suite.
inline constexpr const char* kQuotaShares = "DP_BENCH_QUOTA_SHARES";

/// How many processors the quotas of control groups allow this process, rounded up; none without a
/// quota.
std::optional<int> ProcessorsInGroups(const std::filesystem::path& groups = kOwnGroups,
                                      const std::filesystem::path& mount = kGroupFiles);

}  // namespace dp_bench::core
