// The memory limits of containers and batch jobs.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "core/atomic_file.h"
#include "core/machine.h"
#include "support/scratch_folder.h"

namespace dp_bench::core {
namespace {

class MemoryLimit : public testing::Test {
 protected:
  void Write(const char* file, std::string_view text) {
    const std::filesystem::path path = scratch_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    WriteFileAtomically(path, text);
  }
  std::optional<std::int64_t> Left() {
    return MemoryLeftInGroups(scratch_.path() / "groups", scratch_.path() / "mount");
  }

  ScratchFolder scratch_;
};

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
  const auto memory = [&] {
    return MemoryOfMachine(scratch_.path() / "groups", scratch_.path() / "mount");
  };
  const std::int64_t all = memory();
  EXPECT_GT(all, 1 << 20);
  Write("groups", "0::/job\n");
  Write("mount/job/memory.max", "1000\n");
  Write("mount/job/memory.current", "300\n");
  EXPECT_EQ(memory(), 1000);
  Write("mount/job/memory.max", "1000000000000000\n");
  EXPECT_EQ(memory(), all);
}

}  // namespace
}  // namespace dp_bench::core
