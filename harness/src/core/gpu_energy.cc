// See gpu_energy.h. NVML's functions return 0 if they succeed.
#include "core/gpu_energy.h"

#include <dlfcn.h>

namespace dp_bench::core {
namespace {

template <class Function>
Function Find(const std::shared_ptr<void>& library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library.get(), name));
}

// nvmlShutdown, then dlclose
void CloseNvml(void* library) {
  const auto shut_down = reinterpret_cast<int (*)()>(dlsym(library, "nvmlShutdown"));
  if (shut_down != nullptr) shut_down();
  dlclose(library);
}

}  // namespace

GpuEnergy::GpuEnergy(const char* library) {
  void* const opened = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (opened == nullptr) return;
  library_ = {opened, CloseNvml};
  const auto start = Find<int (*)()>(library_, "nvmlInit_v2");
  const auto count = Find<int (*)(unsigned*)>(library_, "nvmlDeviceGetCount_v2");
  const auto device_at =
      Find<int (*)(unsigned, Device*)>(library_, "nvmlDeviceGetHandleByIndex_v2");
  read_ = Find<ReadMillijoules>(library_, "nvmlDeviceGetTotalEnergyConsumption");
  unsigned n_devices = 0;
  if (start == nullptr || count == nullptr || device_at == nullptr || read_ == nullptr ||
      start() != 0 || count(&n_devices) != 0) {
    return;
  }
  for (unsigned i = 0; i < n_devices; ++i) {
    Device device = nullptr;
    unsigned long long millijoules = 0;  // GPUs before Volta have no counter
    if (device_at(i, &device) == 0 && read_(device, &millijoules) == 0) devices_.push_back(device);
  }
}

std::optional<double> GpuEnergy::Read() const {
  if (devices_.empty()) return std::nullopt;
  double sum = 0.0;
  for (Device device : devices_) {
    unsigned long long millijoules = 0;
    if (read_(device, &millijoules) != 0) return std::nullopt;
    sum += 1e-3 * static_cast<double>(millijoules);
  }
  return sum;
}

}  // namespace dp_bench::core
