// In place of NVIDIA's libraries (NVML and CUDA's driver): three GPUs, of which the last has no
// counter. The others' grow by 1 J and 2 J with each reading.
#include <cstdio>

extern "C" {

int cuInit(unsigned /*flags*/) { return 0; }

int cuDeviceGet(int* device, int index) {
  constexpr int kInvalidDevice = 101;
  *device = 10 * index;
  return index < 3 ? 0 : kInvalidDevice;
}

int cuDeviceGetName(char* name, int n_bytes, int device) {
  std::snprintf(name, static_cast<unsigned>(n_bytes), "Model %d", device);
  return 0;
}

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 3;
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  static unsigned numbers[] = {0, 1, 2};
  *device = &numbers[index];
  return 0;
}

int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  constexpr int kNotSupported = 3;
  static unsigned long long counters[] = {0, 0};
  const unsigned number = *static_cast<unsigned*>(device);
  if (number == 2) return kNotSupported;
  *millijoules = counters[number] += 1000ULL * (number + 1);
  return 0;
}
}
