// What the control groups of containers and batch jobs leave of memory and processors.
#include "core/control_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "core/atomic_file.h"
#include "core/machine.h"
#include "core/thread_pool.h"
#include "support/scratch_folder.h"

namespace dp_bench::core {
namespace {

class ControlGroups : public testing::Test {
 protected:
  void Write(const char* file, std::string_view text) {
    const std::filesystem::path path = scratch_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    WriteFileAtomically(path, text);
  }
  std::optional<std::int64_t> Left() { return MemoryLeftInGroups(groups_, mount_); }
  std::optional<int> Processors() { return ProcessorsInGroups(groups_, mount_); }

  ScratchFolder scratch_;
  const std::filesystem::path groups_ = scratch_.path() / "groups";
  const std::filesystem::path mount_ = scratch_.path() / "mount";
};

using MemoryLimit = ControlGroups;
using ProcessorQuota = ControlGroups;

TEST_F(MemoryLimit, OfAGroupAboveHoldsToo) {
  Write("groups", "0::/job/step\n");
  Write("mount/job/step/memory.max", "max\n");
  Write("mount/job/step/memory.current", "200\n");
  EXPECT_EQ(Left(), std::nullopt);
  Write("mount/job/memory.max", "1000\n");
  Write("mount/job/memory.current", "300\n");
  EXPECT_EQ(Left(), 700);
  Write("mount/job/memory.stat", "anon 200\ninactive_file 100\nactive_file 50\n");
  EXPECT_EQ(Left(), 850);
}

TEST_F(MemoryLimit, OfVersion1IsReadToo) {
  Write("groups", "5:cpu,cpuacct:/a\n4:memory:/a\n");
  Write("mount/memory/a/memory.limit_in_bytes", "5000\n");
  Write("mount/memory/a/memory.usage_in_bytes", "6000\n");
  Write("mount/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("mount/memory/memory.usage_in_bytes", "6000\n");
  EXPECT_EQ(Left(), 0);
  Write("mount/memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 1500\n");
  EXPECT_EQ(Left(), 500);
  Write("groups", "4:memory:/a/slice:cri:1\n");
  EXPECT_EQ(Left(), 500);
}

TEST_F(MemoryLimit, IsNoneOutsideOfGroups) { EXPECT_EQ(Left(), std::nullopt); }

TEST_F(MemoryLimit, IsAllThatAProcessOfTheGroupHas) {
  const auto memory = [&] { return MemoryOfMachine(groups_, mount_); };
  const std::int64_t all = memory();
  EXPECT_GT(all, 1 << 20);
  Write("groups", "0::/job\n");
  Write("mount/job/memory.max", "1000\n");
  Write("mount/job/memory.current", "300\n");
  EXPECT_EQ(memory(), 1000);
  Write("mount/job/memory.max", "1000000000000000\n");
  EXPECT_EQ(memory(), all);
}

TEST_F(ProcessorQuota, IsRoundedUpAndAtLeastOne) {
  Write("groups", "0::/job\n");
  Write("mount/job/cpu.max", "250000 100000\n");
  EXPECT_EQ(Processors(), 3);
  Write("mount/job/cpu.max", "200000 100000\n");
  EXPECT_EQ(Processors(), 2);
  Write("mount/job/cpu.max", "1000 100000\n");
  EXPECT_EQ(Processors(), 1);
}

TEST_F(ProcessorQuota, IsDividedAmongTheProcessesThatShareIt) {
  Write("groups", "0::/job\n");
  Write("mount/job/cpu.max", "800000 100000\n");
  for (const auto& [shares, n] : {std::pair("2", 4), {"3", 3}, {"20", 1}, {"none", 8}}) {
    setenv(kQuotaShares, shares, /*replace=*/1);
    EXPECT_EQ(Processors(), n) << shares;
  }
  unsetenv(kQuotaShares);
  EXPECT_EQ(Processors(), 8);
}

TEST_F(ProcessorQuota, OfAGroupAboveHoldsToo) {
  Write("groups", "0::/job/step\n");
  Write("mount/job/step/cpu.max", "max 100000\n");
  EXPECT_EQ(Processors(), std::nullopt);
  Write("mount/job/cpu.max", "400000 100000\n");
  EXPECT_EQ(Processors(), 4);
  Write("mount/job/step/cpu.max", "800000 100000\n");
  EXPECT_EQ(Processors(), 4);
  Write("mount/cpu.max", "50000 50000\n");
  EXPECT_EQ(Processors(), 1);
}

TEST_F(ProcessorQuota, OfVersion1IsReadToo) {
  Write("groups", "6:cpuset:/b\n5:cpu,cpuacct:/a/slice:cri:1\n4:memory:/a\n");
  Write("mount/cpu/cpu.cfs_quota_us", "-1\n");
  Write("mount/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Processors(), std::nullopt);
  Write("mount/cpu/a/cpu.cfs_quota_us", "150000\n");
  Write("mount/cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Processors(), 2);
  Write("groups", "5:cpuacct,cpu:/a\n");
  EXPECT_EQ(Processors(), 2);
  Write("groups", "6:cpuset:/a\n");
  EXPECT_EQ(Processors(), std::nullopt);
}

TEST_F(ProcessorQuota, IsNoneOutsideOfGroups) {
  EXPECT_EQ(Processors(), std::nullopt);
  Write("groups", "no group\n");
  EXPECT_EQ(Processors(), std::nullopt);
}

TEST_F(ProcessorQuota, LimitsOnlyWhatTheUserLeavesOpen) {
  const int n_usable = static_cast<int>(UsableProcessors().size());
  EXPECT_EQ(ResolveThreadCount(0), std::min(n_usable, ProcessorsInGroups().value_or(n_usable)));
  EXPECT_EQ(ResolveThreadCount(4096), 4096);
}

}  // namespace
}  // namespace dp_bench::core
