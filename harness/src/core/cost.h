// What work costs: time, memory, and energy where the machine tells it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace dp_bench::core {

/// The load of the machine, from all its processes.
struct MachineLoad {
  double average = 0.0;  // processes that run or want to, over the last minute
  int n_processors = 0;
};

MachineLoad ReadMachineLoad();

struct Cost {
  double wall_s = 0.0;
  double cpu_s = 0.0;              // of this process and of children that have ended
  std::int64_t peak_bytes = 0;     // resident memory of this process since its start
  std::optional<double> energy_j;  // of all processors of the machine; none if it cannot be read
  MachineLoad load;                // at the end
};

/// Measures from its construction on.
class CostMeter {
 public:
  /// `powercap`: where Linux shows the energy counters of the processors (RAPL).
  explicit CostMeter(std::filesystem::path powercap = "/sys/class/powercap");

  Cost Read();

 private:
  struct EnergyCounter {
    std::filesystem::path folder;
    double last_uj = 0.0;
    double range_uj = 0.0;  // where it begins at 0 again
  };

  double start_s_;
  double start_cpu_s_;
  double energy_j_ = 0.0;
  std::vector<EnergyCounter> counters_;
};

}  // namespace dp_bench::core
