// cost.json over several processes of one run.
#include "run/run_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/atomic_file.h"
#include "run/cost_prediction.h"
#include "run/run_files.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::run {
namespace {

using testing::HasSubstr;

core::Cost CostIn(const std::filesystem::path& folder) {
  return ParseCost(core::ReadTextFile(folder / kCostFile, 1U << 20), "cost.json");
}

TEST(RunCost, AddsUpTheProcessesOfARun) {
  const ScratchFolder scratch;
  const core::Cost first = {.wall_s = 60.0,
                            .cpu_s = 90.0,
                            .peak_bytes = 200 << 20,
                            .energy_j = 1000.0,
                            .load = {.average = 1.5, .n_processors = 2}};
  AddCost(scratch.path(), first);
  AddCost(scratch.path(), {.wall_s = 1.0, .cpu_s = 2.0, .peak_bytes = 100, .energy_j = 500.0});
  const core::Cost sum = CostIn(scratch.path());
  EXPECT_DOUBLE_EQ(sum.wall_s, 61.0);
  EXPECT_DOUBLE_EQ(sum.cpu_s, 92.0);
  EXPECT_EQ(sum.peak_bytes, 200 << 20);
  EXPECT_DOUBLE_EQ(sum.energy_j.value(), 1500.0);
  EXPECT_THAT(Describe(first),
              HasSubstr("0:01:00, CPU time 0:01:30, at most 200 MiB of memory, 1 kJ "
                        "of processors and GPUs; load average 1.5 on 2 processors"));
  AddCost(scratch.path(), {.wall_s = 1.0});
  EXPECT_FALSE(CostIn(scratch.path()).energy_j.has_value());
}

TEST(RunCost, AMergedFolderHasItsShardsOnceHoweverOftenItIsMerged) {
  const ScratchFolder scratch;
  SetShardCosts(scratch.path(), {{.wall_s = 1.0}, {.wall_s = 2.0}});
  AddCost(scratch.path(), {.wall_s = 10.0});                          // of eval --resume
  SetShardCosts(scratch.path(), {{.wall_s = 1.0}, {.wall_s = 4.0}});  // one has worked on
  EXPECT_DOUBLE_EQ(CostIn(scratch.path()).wall_s, 15.0);
}

TEST(RunCost, ADamagedFileIsReplaced) {
  const ScratchFolder scratch;
  for (const char* text : {"{", "[]", R"({"processes": [{"wall_s": "long"}]})"}) {
    std::ofstream(scratch.path() / kCostFile) << text;
    EXPECT_EQ(CodeOf([&] { CostIn(scratch.path()); }), ErrorCode::kData) << text;
    AddCost(scratch.path(), {.wall_s = 5.0});
    EXPECT_DOUBLE_EQ(CostIn(scratch.path()).wall_s, 5.0);
  }
}

TEST(CostPrediction, RepeatedWorkCostsMoreOfAllButMemory) {
  const CostPrediction once = {
      .wall_s = 2.0, .cpu_s = 3.0, .peak_bytes = 100, .disk_bytes = 7.0, .energy_j = 11.0};
  const CostPrediction thrice = Repeated(once, 3);
  EXPECT_DOUBLE_EQ(thrice.wall_s, 6.0);
  EXPECT_DOUBLE_EQ(thrice.cpu_s, 9.0);
  EXPECT_EQ(thrice.peak_bytes, 100);
  EXPECT_DOUBLE_EQ(thrice.disk_bytes, 21.0);
  EXPECT_DOUBLE_EQ(thrice.energy_j.value(), 33.0);
  EXPECT_FALSE(Repeated({.wall_s = 2.0}, 3).energy_j.has_value());
}

}  // namespace
}  // namespace dp_bench::run
