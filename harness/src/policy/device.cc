#include "policy/device.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "core/errors.h"
#include "core/machine.h"

namespace dp_bench::policy {
namespace {

int CountDevices(c10::DeviceType type) {
  if (type == c10::DeviceType::Meta) return 0;  // shapes without values
  return c10::impl::hasDeviceGuardImpl(type) ? c10::impl::getDeviceGuardImpl(type)->deviceCount()
                                             : 0;
}

torch::Device Parse(const std::string& name) {
  try {
    return torch::Device(name);
  } catch (const c10::Error&) {
    throw ConfigError("training.device is '{}'; expected 'cpu', 'cuda' or 'cuda:<n>'", name);
  }
}

// PyTorch's note on reproducibility (docs.pytorch.org/docs/stable/notes/randomness.html). CPU
// operators are repeatable without this.
void UseRepeatableAlgorithms() {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/true);
  context.setDeterministicFillUninitializedMemory(false);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
  context.setSDPUseCuDNN(false);  // these two sum gradients of attention in a varying order
  context.setSDPUseMemEfficient(false);
  context.setAllowTF32CuDNN(false);
  context.setAllowTF32CuBLAS(false);
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

// The major number of a CUDA device's compute capability; 0 if the driver does not tell. LibTorch
// has no call for it that exists without CUDA too.
int ComputeCapabilityMajor(int device_index) {
  using GetAttribute = int (*)(int* value, int attribute, int device);
  constexpr int kComputeCapabilityMajor = 75;  // CUdevice_attribute of CUDA's driver API
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return 0;
  const auto get_attribute = reinterpret_cast<GetAttribute>(dlsym(driver, "cuDeviceGetAttribute"));
  int major = 0;
  const bool is_known =
      get_attribute != nullptr && get_attribute(&major, kComputeCapabilityMajor, device_index) == 0;
  dlclose(driver);
  return is_known ? major : 0;
}

class NoWarnings final : public c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

// LibTorch warns once that this choice is experimental.
void PreferBlas(at::BlasBackend backend) {
  NoWarnings none;
  const c10::WarningUtils::WarningHandlerGuard quiet(&none);
  at::globalContext().setBlasPreferredBackend(backend);
}

}  // namespace

torch::Device OpenDevice(const std::string& name) {
  const torch::Device device = Parse(name);
  const int n_devices = CountDevices(device.type());
  if (n_devices <= std::max<int>(device.index(), 0)) {
    throw ConfigError(
        "training.device is '{}', but this LibTorch finds {} devices of that type. Use "
        "training.device=cpu, or a LibTorch for that device and a working driver.",
        name, n_devices);
  }
  if (!device.is_cpu()) UseRepeatableAlgorithms();
  return device;
}

PlanningKernels::PlanningKernels(torch::Device device)
    : is_on_(device.is_cuda()),
      was_efficient_(at::globalContext().userEnabledMemEfficientSDP()),
      blas_before_(is_on_ ? at::globalContext().blasPreferredBackend() : at::BlasBackend::Default) {
  if (!is_on_) return;
  // its gradients vary from run to run, its results do not
  at::globalContext().setSDPUseMemEfficient(true);
  // with the deterministic workspace, cuBLAS needs ten times as long for 16 rows
  PreferBlas(at::BlasBackend::Cublaslt);
}

PlanningKernels::~PlanningKernels() {
  if (!is_on_) return;
  at::globalContext().setSDPUseMemEfficient(was_efficient_);
  PreferBlas(blas_before_);
}

torch::Tensor ToDevice(const Array& array, torch::Device device) {
  torch::Tensor host = torch::from_blob(const_cast<std::byte*>(array.bytes().data()), array.shape(),
                                        ToScalarType(array.dtype()));
  if (device.is_cpu()) return host;
  return host.pin_memory().to(device, /*non_blocking=*/true);
}

TensorMap ObsToDevice(const ArrayMap& obs, const ShapeMeta& shape_meta, torch::Device device) {
  TensorMap tensors;
  for (const KeySpec& key : shape_meta.obs) {
    const auto found = obs.find(key.name);
    if (found == obs.end()) {
      throw ShapeError("the policy wants '{}', which was not observed", key.name);
    }
    torch::Tensor tensor = ToDevice(found->second, device);
    if (key.is_image()) tensor = tensor.permute({0, 1, 4, 2, 3});
    tensors.emplace(key.name, std::move(tensor));
  }
  return tensors;
}

bool IsOutOfMemory(const c10::Error& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  const std::string_view what = error.what_without_backtrace();
  return what.find("DefaultCPUAllocator: can't allocate memory") != std::string_view::npos;
}

bool HasFastBfloat16(torch::Device device) {
  if (device.is_cpu()) return core::HasBfloat16Products();
  return device.is_cuda() && ComputeCapabilityMajor(std::max<int>(device.index(), 0)) >= 8;
}

void Synchronize(torch::Device device) {
  if (device.is_cpu()) return;
  const auto* device_type = c10::impl::getDeviceGuardImpl(device.type());
  device_type->synchronizeDevice(device.has_index() ? device.index()
                                                    : device_type->getDevice().index());
}

void ReleaseHelperThreads() { omp_pause_resource_all(omp_pause_soft); }

}  // namespace dp_bench::policy
