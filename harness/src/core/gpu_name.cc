// See gpu_name.h. The driver's functions return 0 if they succeed.
#include "core/gpu_name.h"

#include <dlfcn.h>

#include <array>

namespace dp_bench::core {

// Leaves the library open: LibTorch uses it too, and the driver's threads may still run.
std::optional<std::string> GpuName(int index, const char* library) {
  void* const opened = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (opened == nullptr) return std::nullopt;
  const auto start = reinterpret_cast<int (*)(unsigned)>(dlsym(opened, "cuInit"));
  const auto device_at = reinterpret_cast<int (*)(int*, int)>(dlsym(opened, "cuDeviceGet"));
  const auto name_of = reinterpret_cast<int (*)(char*, int, int)>(dlsym(opened, "cuDeviceGetName"));
  if (start == nullptr || device_at == nullptr || name_of == nullptr) return std::nullopt;
  int device = 0;
  std::array<char, 256> name{};
  if (start(0) != 0 || device_at(&device, index) != 0 ||
      name_of(name.data(), static_cast<int>(name.size()) - 1, device) != 0) {
    return std::nullopt;
  }
  return std::string(name.data());
}

}  // namespace dp_bench::core
