// The energy counters of NVIDIA's GPUs, which their driver brings as a library (NVML API Reference,
// nvmlDeviceGetTotalEnergyConsumption).
#pragma once

#include <memory>
#include <optional>
#include <vector>

namespace dp_bench::core {

/// Opens the library once. Without it, without a GPU or without a counter, there is nothing to
/// read.
class GpuEnergy {
 public:
  explicit GpuEnergy(const char* library = "libnvidia-ml.so.1");

  /// [J], of all GPUs of the machine since their driver was loaded; none if it cannot be read.
  std::optional<double> Read() const;

 private:
  using Device = void*;
  using ReadMillijoules = int (*)(Device device, unsigned long long* millijoules);

  std::shared_ptr<void> library_;
  ReadMillijoules read_ = nullptr;
  std::vector<Device> devices_;
};

}  // namespace dp_bench::core
