// What work costs, with energy counters in a scratch folder.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/gpu_energy.h"
#include "core/gpu_name.h"
#include "core/machine.h"
#include "support/scratch_folder.h"

namespace dp_bench::core {
namespace {

void WriteCounter(const std::filesystem::path& folder, const char* energy_uj) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "energy_uj") << energy_uj << "\n";
  std::ofstream(folder / "max_energy_range_uj") << "262143328850\n";
}

TEST(CostMeter, CountsTimeAndMemoryOfThisProcess) {
  const ScratchFolder scratch;
  CostMeter meter(scratch.path() / "none", GpuEnergy("none"));
  volatile double sum = 0.0;
  while (meter.Read().cpu_s < 0.02) sum = sum + 1.0;
  const Cost cost = meter.Read();
  EXPECT_GE(cost.wall_s, 0.0);
  EXPECT_LT(cost.cpu_s, 60.0);
  EXPECT_GT(cost.peak_bytes, 1 << 20);
  EXPECT_GE(cost.load.n_processors, 1);
  EXPECT_FALSE(cost.energy_j.has_value());
}

TEST(CostMeter, CountsChildrenThatStillRun) {
  const ScratchFolder scratch;
  CostMeter meter(scratch.path() / "none", GpuEnergy("none"));
  const std::int64_t own_bytes = meter.Read().peak_bytes;
  const pid_t child = fork();
  if (child == 0) alarm(60);  // ends it if this test hangs
  volatile bool spins = child == 0;
  while (spins) {
  }
  const auto own_s = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  };
  const double before_s = own_s();
  while (meter.Read().cpu_s < own_s() - before_s + 0.1) {
    ASSERT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "no time of a child was seen";
    usleep(10'000);
  }
  EXPECT_GT(meter.Read().peak_bytes, own_bytes);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(CostMeter, EnergyIsOfWholeProcessorsAndCountersMayBeginAgain) {
  const ScratchFolder scratch;
  const auto& folder = scratch.path();
  WriteCounter(folder / "intel-rapl:0", "262143328000");
  WriteCounter(folder / "intel-rapl:1", "0");
  WriteCounter(folder / "intel-rapl:0:0", "0");  // a part of the first
  CostMeter meter(folder, GpuEnergy("none"));
  WriteCounter(folder / "intel-rapl:0", "999150");
  WriteCounter(folder / "intel-rapl:1", "2000000");
  WriteCounter(folder / "intel-rapl:0:0", "5000000");
  EXPECT_NEAR(meter.Read().energy_j.value(), 3.0, 1e-9);
  WriteCounter(folder / "intel-rapl:1", "3000000");
  EXPECT_NEAR(meter.Read().energy_j.value(), 4.0, 1e-9);
}

TEST(CostMeter, EnergyOfGpusIsAddedForThoseThatHaveACounter) {
  const ScratchFolder scratch;
  CostMeter meter(scratch.path() / "none", GpuEnergy(DPB_GPU_STUB));
  EXPECT_NEAR(meter.Read().energy_j.value(), 3.0, 1e-9);
  EXPECT_NEAR(meter.Read().energy_j.value(), 6.0, 1e-9);
}

TEST(GpuEnergy, WithoutTheLibraryOrItsFunctionsThereIsNothingToRead) {
  EXPECT_FALSE(GpuEnergy("libnothing_of_that_name.so").Read().has_value());
  EXPECT_FALSE(GpuEnergy("libm.so.6").Read().has_value());
}

TEST(GpuName, IsThatOfTheDriver) {
  EXPECT_EQ(GpuName(0, DPB_GPU_STUB), "Model 0");
  EXPECT_EQ(GpuName(2, DPB_GPU_STUB), "Model 20");
}

TEST(GpuName, WithoutTheLibraryItsFunctionsOrTheGpuThereIsNone) {
  EXPECT_FALSE(GpuName(3, DPB_GPU_STUB).has_value());
  EXPECT_FALSE(GpuName(0, "libnothing_of_that_name.so").has_value());
  EXPECT_FALSE(GpuName(0, "libm.so.6").has_value());
}

}  // namespace
}  // namespace dp_bench::core
