// Reading mpirun's environment, and the threads of a rank.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "core/communicator.h"
#include "core/control_groups.h"

namespace dp_bench::core {
namespace {

class LaunchTest : public testing::Test {
 protected:
  LaunchTest() { ClearVariables(); }
  ~LaunchTest() override { ClearVariables(); }

  static void Set(const char* variable, const std::string& value) {
    setenv(variable, value.c_str(), /*replace=*/1);
  }

 private:
  static void ClearVariables() {
    for (const char* variable :
         {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
          "PMI_SIZE", "MPI_LOCALNRANKS", "MPI_LOCALRANKID", "OMP_NUM_THREADS"}) {
      unsetenv(variable);
    }
  }
};

TEST_F(LaunchTest, IsOneRankWithoutMpirun) {
  const Launch launch = ReadLaunch();
  EXPECT_EQ(launch.n_ranks, 1);
  EXPECT_EQ(launch.n_local_ranks, 1);
  EXPECT_FALSE(ShareCores(launch));
  EXPECT_EQ(std::getenv("OMP_NUM_THREADS"), nullptr);
}

TEST_F(LaunchTest, IsReadAsOpenMpiSetsIt) {
  Set("OMPI_COMM_WORLD_SIZE", "8");
  Set("OMPI_COMM_WORLD_LOCAL_SIZE", "4");
  Set("OMPI_COMM_WORLD_LOCAL_RANK", "3");
  const Launch launch = ReadLaunch();
  EXPECT_EQ(launch.n_ranks, 8);
  EXPECT_EQ(launch.n_local_ranks, 4);
  EXPECT_EQ(launch.local_rank, 3);
}

TEST_F(LaunchTest, IsReadAsMpichSetsIt) {
  Set("PMI_SIZE", "2");
  EXPECT_EQ(ReadLaunch().n_ranks, 2);
  EXPECT_EQ(ReadLaunch().n_local_ranks, 2);
}

TEST_F(LaunchTest, GarbageInTheEnvironmentIsOneRank) {
  Set("OMPI_COMM_WORLD_SIZE", "many");
  EXPECT_EQ(ReadLaunch().n_ranks, 1);
}

TEST_F(LaunchTest, ManyRanksOnOneMachineGetOneThreadEach) {
  EXPECT_TRUE(ShareCores({.n_ranks = 100'000, .n_local_ranks = 100'000, .local_rank = 7}));
  EXPECT_STREQ(std::getenv("OMP_NUM_THREADS"), "1");
}

TEST_F(LaunchTest, TheUsersThreadCountStays) {
  Set("OMP_NUM_THREADS", "3");
  EXPECT_FALSE(ShareCores({.n_ranks = 2, .n_local_ranks = 2}));
  EXPECT_STREQ(std::getenv("OMP_NUM_THREADS"), "3");
}

TEST_F(LaunchTest, ARankThatWasBoundToOneCoreGetsItsShare) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  const int n_cores = CPU_COUNT(&before);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int core = 0; CPU_COUNT(&one) == 0; ++core) {
    if (CPU_ISSET(core, &before)) CPU_SET(core, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);

  // two ranks on two machines: this one uses all cores of its machine
  EXPECT_TRUE(ShareCores({.n_ranks = 2, .n_local_ranks = 1, .local_rank = 0}));
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_GE(CPU_COUNT(&after), n_cores);
  const int in_quota = ProcessorsInGroups().value_or(CPU_COUNT(&after));
  EXPECT_EQ(std::getenv("OMP_NUM_THREADS"), std::to_string(std::min(CPU_COUNT(&after), in_quota)));
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

}  // namespace
}  // namespace dp_bench::core
