// This machine: its processor and load, and what work costs on it: time, memory, and energy where
// the machine tells it.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/control_groups.h"
#include "core/gpu_energy.h"

namespace dp_bench::core {

/// As Linux names it; "unknown" if it does not.
std::string ProcessorName();

// Instruction sets; false on processors other than x86-64.

bool HasAvx2AndFma();
bool HasAvx512();            // its foundation, AVX512F
bool HasBfloat16Products();  // AVX512_BF16, which processors with AMX have too

/// The load of the machine, from all its processes.
struct MachineLoad {
  double average = 0.0;  // processes that run or want to, over the last minute
  int n_processors = 0;
};

MachineLoad ReadMachineLoad();

struct Cost {
  double wall_s = 0.0;
  double cpu_s = 0.0;           // of this process and of those that it started
  std::int64_t peak_bytes = 0;  // resident memory of this process and of those that run, each at
                                // its peak
  std::optional<double>
      energy_j;      // of the machine's processors and GPUs; none if no counter can be read
  MachineLoad load;  // at the end
};

/// Measures from its construction on.
class CostMeter {
 public:
  /// `powercap`: where Linux shows the energy counters of the processors (RAPL). `gpus`: those of
  /// the GPUs (NVML).
  explicit CostMeter(const std::filesystem::path& powercap = "/sys/class/powercap",
                     GpuEnergy gpus = GpuEnergy());

  Cost Read();

 private:
  struct EnergyCounter {
    std::filesystem::path folder;
    double last_uj = 0.0;
    double range_uj = 0.0;  // where it begins at 0 again
  };

  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double start_cpu_s_;
  double energy_j_ = 0.0;
  std::vector<EnergyCounter> counters_;
  GpuEnergy gpus_;
  std::optional<double> start_gpu_j_;
};

/// What the machine, the limits of containers and batch jobs, and `ulimit -v` leave for this
/// process [bytes]; 0 if the system does not report it.
std::int64_t AvailableMemory();

/// What the memory limits of control groups leave [bytes]; none without a limit.
std::optional<std::int64_t> MemoryLeftInGroups(const std::filesystem::path& groups = kOwnGroups,
                                               const std::filesystem::path& mount = kGroupFiles);

/// The memory of the machine, or what the control groups of this process may have of it [bytes].
std::int64_t MemoryOfMachine(const std::filesystem::path& groups = kOwnGroups,
                             const std::filesystem::path& mount = kGroupFiles);

// An allocation that the system or a device refused, with what was being allocated.

/// Passes through the plugin guards like std::bad_alloc: the plugin is not at fault.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string what) : what_(std::move(what)) {}
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

/// Keeps freed memory in the process. A training step allocates and frees the same large tensors
/// again and again; by default malloc returns each to the system at once, and the page faults cost
/// a tenth of the step.
void KeepFreedMemory();

}  // namespace dp_bench::core
