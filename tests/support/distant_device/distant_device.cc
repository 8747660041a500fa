#include "support/distant_device/distant_device.h"

#if __has_include(<ATen/core/GraphImplInterface.h>)  // LibTorch 2.11 has none
#include <ATen/core/GraphImplInterface.h>
#define DPB_HAS_GRAPHS
#endif
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/HPUHooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <sys/mman.h>
#include <torch/library.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace dp_bench {
namespace {

// Habana's: no backend in LibTorch uses it, and a module can be moved there (not to
// "privateuseone", TensorImpl::has_compatible_shallow_copy_type)
constexpr c10::DeviceType kType = c10::DeviceType::HPU;
constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::HPU);
const c10::Device kDevice(kType, 0);

// Pages that can be read and written only while they are unlocked.
class Memory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t n_bytes) override {
    if (n_bytes == 0) return {nullptr, kDevice};
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t size = (n_bytes + page - 1) / page * page;
    void* data = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK(data != MAP_FAILED, "the distant device has no memory left");
    const std::scoped_lock lock(mutex_);
    blocks_[data] = {.size = size};
    return {data, data, &Free, kDevice};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &Free; }

  void copy_data(void* /*to*/, const void* /*from*/, std::size_t /*n_bytes*/) const override {
    TORCH_CHECK(false, "the distant device copies only tensors");
  }

  void Open(void* data) { Change(data, 1); }
  void Close(void* data) { Change(data, -1); }

 private:
  struct Block {
    std::size_t size = 0;
    int n_open = 0;
  };

  static void Free(void* data);

  void Change(void* data, int by) {
    const std::scoped_lock lock(mutex_);
    Block& block = blocks_.at(data);
    block.n_open += by;
    const int access = block.n_open > 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
    TORCH_CHECK(mprotect(data, block.size, access) == 0, "mprotect failed");
  }

  std::mutex mutex_;
  std::map<void*, Block> blocks_;
};

Memory& TheMemory() {
  static auto* const memory = new Memory;  // tensors may outlive every static object
  return *memory;
}

void Memory::Free(void* data) {
  Memory& memory = TheMemory();
  const std::scoped_lock lock(memory.mutex_);
  const auto found = memory.blocks_.find(data);
  munmap(data, found->second.size);
  memory.blocks_.erase(found);
}

// A tensor of either device as a CPU tensor over the same memory.
class OpenTensor {
 public:
  explicit OpenTensor(const at::Tensor& tensor) : view_(tensor) {
    if (tensor.device().is_cpu()) return;
    base_ = tensor.storage().mutable_data();
    if (base_ != nullptr) TheMemory().Open(base_);
    const std::int64_t offset =
        tensor.storage_offset() * static_cast<std::int64_t>(tensor.element_size());
    view_ = at::from_blob(static_cast<std::byte*>(base_) + offset, tensor.sizes(), tensor.strides(),
                          at::TensorOptions(tensor.scalar_type()));
  }
  OpenTensor(const OpenTensor&) = delete;
  OpenTensor& operator=(const OpenTensor&) = delete;
  ~OpenTensor() {
    if (base_ != nullptr) TheMemory().Close(base_);
  }

  at::Tensor& view() { return view_; }

 private:
  at::Tensor view_;
  void* base_ = nullptr;
};

// A piece of work on the device. Those within it and those of a replay are no starts by the host.
class Work {
 public:
  explicit Work(bool is_replay = false) {
    if (depth_++ == 0 && !is_replay) ++n_started;
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work() { --depth_; }

  static inline std::atomic<std::int64_t> n_started = 0;

 private:
  static inline thread_local int depth_ = 0;
};

// What the thread's graph is recording. An operator that runs others records only itself.
class Operators {
 public:
  explicit Operators(c10::StreamId stream) : stream_(stream) {}

  c10::StreamId stream() const { return stream_; }
  void Record(std::function<void()> again) {
    if (n_running_ == 1) list_.push_back(std::move(again));
  }
  void Replay() const {
    for (const std::function<void()>& again : list_) again();
  }
  // As on a GPU, where a copy from or to the host would read the memory of the host at another
  // time.
  void RequireNoCopy() const {
    TORCH_CHECK(n_running_ > 1, "a copy between host and device was recorded");
  }

  class Running {
   public:
    explicit Running(Operators* operators) : operators_(operators) {
      if (operators_ != nullptr) ++operators_->n_running_;
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running() {
      if (operators_ != nullptr) --operators_->n_running_;
    }

   private:
    Operators* operators_;
  };

 private:
  c10::StreamId stream_;
  std::vector<std::function<void()>> list_;
  int n_running_ = 0;
};

// As on a GPU, a recording is of one stream, into which the thread that computes gradients works
// too, and the threads that prepare batches do not.
constexpr c10::StreamId kDefaultStream = 0;
thread_local c10::StreamId current_stream = kDefaultStream;
std::atomic<Operators*> recording = nullptr;

// What records the operators of this thread, or null.
Operators* Recorded() {
  Operators* const operators = recording;
  return operators != nullptr && operators->stream() == current_stream ? operators : nullptr;
}

at::Tensor Empty(c10::IntArrayRef size, std::optional<at::ScalarType> type,
                 std::optional<at::Layout> /*layout*/, std::optional<at::Device> /*device*/,
                 std::optional<bool> /*pin_memory*/, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &TheMemory(), kKeys, c10::dtype_or_default(type), format);
}

at::Tensor EmptyStrided(c10::IntArrayRef size, c10::IntArrayRef stride,
                        std::optional<at::ScalarType> type, std::optional<at::Layout> /*layout*/,
                        std::optional<at::Device> /*device*/, std::optional<bool> /*pin_memory*/) {
  return at::detail::empty_strided_generic(size, stride, &TheMemory(), kKeys,
                                           c10::dtype_or_default(type));
}

const at::Tensor& Resize(const at::Tensor& self, c10::IntArrayRef size,
                         std::optional<at::MemoryFormat> /*format*/) {
  const at::Tensor fresh = at::empty(size, self.options());
  at::Tensor(self).set_(fresh.storage(), 0, size, fresh.strides());
  return self;
}

// The same memory without the autograd graph, which a recording must not keep alive.
at::Tensor Detached(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.variable_data() : tensor;
}

torch::jit::Stack Detached(torch::jit::Stack values) {
  for (c10::IValue& value : values) {
    if (value.isTensor()) value = Detached(value.toTensor());
    if (!value.isTensorList()) continue;
    std::vector<at::Tensor> tensors;
    for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(Detached(tensor));
    value = tensors;
  }
  return values;
}

void Copy(const at::Tensor& from, const at::Tensor& to) {
  OpenTensor source(from);
  OpenTensor target(to);
  const at::NoGradGuard no_grad;
  target.view().copy_(source.view());
}

at::Tensor CopyFrom(const at::Tensor& from, const at::Tensor& to, bool /*non_blocking*/) {
  const Work work;
  Operators* const recorded = Recorded();
  const Operators::Running running(recorded);
  if (recorded != nullptr) {
    if (from.device() != to.device()) recorded->RequireNoCopy();
    recorded->Record([from = Detached(from), to = Detached(to)] { Copy(from, to); });
  }
  Copy(from, to);
  return to;
}

at::Tensor CopyFromAndResize(const at::Tensor& from, const at::Tensor& to) {
  if (from.sizes() != to.sizes()) Resize(to, from.sizes(), std::nullopt);
  return CopyFrom(from, to, false);
}

// Any operator: runs the CPU's on copies of its arguments, and copies changed ones back.
void OnCpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  for (const c10::IValue& argument : torch::jit::last(*stack, op.schema().arguments().size())) {
    const bool is_elsewhere = argument.isTensor() && argument.toTensor().defined() &&
                              argument.toTensor().device().is_cpu() &&
                              argument.toTensor().dim() > 0;
    TORCH_CHECK(!is_elsewhere, op.schema().name(), " was given tensors of two devices");
  }
  const Work work;
  Operators* const recorded = Recorded();
  const Operators::Running running(recorded);
  if (recorded == nullptr) return at::native::cpu_fallback(op, stack);
  const std::size_t n_arguments = op.schema().arguments().size();
  const torch::jit::Stack arguments(stack->end() - static_cast<std::ptrdiff_t>(n_arguments),
                                    stack->end());
  at::native::cpu_fallback(op, stack);
  const std::size_t n_results = op.schema().returns().size();
  const torch::jit::Stack results(stack->end() - static_cast<std::ptrdiff_t>(n_results),
                                  stack->end());
  std::vector<at::Tensor> written;  // undefined: the operator changes an argument, or returns none
  for (const c10::IValue& result : results) {
    TORCH_CHECK(!result.isTensorList(), op.schema().name(), " cannot be recorded");
    const bool is_argument =
        std::ranges::any_of(arguments, [&](const c10::IValue& one) { return one.is(result); });
    written.push_back(result.isTensor() && !is_argument ? Detached(result.toTensor())
                                                        : at::Tensor());
  }
  recorded->Record([op, arguments = Detached(arguments), written] {
    torch::jit::Stack again = arguments;
    at::native::cpu_fallback(op, &again);
    for (std::size_t i = 0; i < written.size(); ++i) {
      if (written[i].defined()) Copy(again[i].toTensor(), written[i]);
    }
  });
}

at::Tensor Convolution(const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, std::int64_t groups) {
  const at::Tensor offsets = Detached(bias.value_or(at::Tensor()));
  const auto run = [=, input = Detached(input), weight = Detached(weight), stride = stride.vec(),
                    padding = padding.vec(), dilation = dilation.vec(),
                    output_padding = output_padding.vec()] {
    return at::convolution(input.cpu(), weight.cpu(), offsets.defined() ? offsets.cpu() : offsets,
                           stride, padding, dilation, transposed, output_padding, groups)
        .to(kDevice);
  };
  const Work work;
  Operators* const recorded = Recorded();
  const Operators::Running running(recorded);
  at::Tensor result = run();
  if (recorded != nullptr) {
    recorded->Record([run, result = Detached(result)] { Copy(run(), result); });
  }
  return result;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> ConvolutionBackward(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
    at::IntArrayRef output_padding, std::int64_t groups, std::array<bool, 3> wanted) {
  const std::vector<std::int64_t> bias = {transposed ? weight.size(1) * groups : weight.size(0)};
  const auto moved = [](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.to(kDevice) : tensor;
  };
  using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
  const auto run = [=, grad = Detached(grad), input = Detached(input), weight = Detached(weight),
                    stride = stride.vec(), padding = padding.vec(), dilation = dilation.vec(),
                    output_padding = output_padding.vec()]() -> Gradients {
    const auto [of_input, of_weight, of_bias] =
        at::convolution_backward(grad.cpu(), input.cpu(), weight.cpu(), bias, stride, padding,
                                 dilation, transposed, output_padding, groups, wanted);
    return {moved(of_input), moved(of_weight), moved(of_bias)};
  };
  const Work work;
  Operators* const recorded = Recorded();
  const Operators::Running running(recorded);
  Gradients results = run();
  if (recorded != nullptr) {
    recorded->Record([run, results] {
      const auto copy = [](const at::Tensor& from, const at::Tensor& to) {
        if (to.defined()) Copy(from, to);
      };
      const Gradients again = run();
      copy(std::get<0>(again), std::get<0>(results));
      copy(std::get<1>(again), std::get<1>(results));
      copy(std::get<2>(again), std::get<2>(results));
    });
  }
  return results;
}

TORCH_LIBRARY_IMPL(_, HPU, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&OnCpu>()); }

TORCH_LIBRARY_IMPL(aten, HPU, m) {
  m.impl("empty.memory_format", &Empty);
  m.impl("empty_strided", &EmptyStrided);
  m.impl("resize_", &Resize);
  m.impl("_copy_from", &CopyFrom);
  m.impl("_copy_from_and_resize", &CopyFromAndResize);
  m.impl("convolution_overrideable", &Convolution);
  m.impl("convolution_backward_overrideable", &ConvolutionBackward);
  // the CPU operator with an output argument warns that it has to resize it
  m.impl("mse_loss", torch::CppFunction::makeFromBoxedFunction<&OnCpu>());
  // views read no memory
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("unfold", &at::native::unfold);
  m.impl("set_.source_Storage_storage_offset", &at::native::set_storage_cpu_);
}

// Autocast treats every operator as on CUDA.
#define DPB_KERNEL(POLICY, ...) KERNEL(kType, __VA_ARGS__, POLICY)
#define DPB_LOWER(...) DPB_KERNEL(lower_precision_fp, __VA_ARGS__)
#define DPB_FP32(...) DPB_KERNEL(fp32, __VA_ARGS__)
#define DPB_PROMOTE(...) DPB_KERNEL(promote, __VA_ARGS__)
TORCH_LIBRARY_IMPL(_, AutocastHPU, m) { m.fallback(torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, AutocastHPU, m) {
  AT_FORALL_LOWER_PRECISION_FP(DPB_LOWER)
  AT_FORALL_FP32(DPB_FP32)
  AT_FORALL_PROMOTE(DPB_PROMOTE)
}
#undef DPB_PROMOTE
#undef DPB_FP32
#undef DPB_LOWER
#undef DPB_KERNEL

// LibTorch looks this name up.
struct HPUHooks final : at::HPUHooksInterface {
  explicit HPUHooks(at::HPUHooksArgs /*args*/) {}
  void init() const override {}
  bool hasHPU() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override { return true; }
  at::Allocator* getPinnedMemoryAllocator() const override { return c10::GetAllocator(c10::kCPU); }
};

using at::HPUHooksRegistry;
using at::RegistererHPUHooksRegistry;
REGISTER_HPU_HOOKS(HPUHooks)

#ifdef DPB_HAS_GRAPHS
// A graph repeats its operators on the tensors with which they were recorded.
class Graph final : public at::GraphImplInterface {
 public:
  explicit Graph(const at::GraphImplArgs& /*args*/) {}
  void capture_begin(at::MempoolId_t /*pool*/, at::GraphCaptureMode /*mode*/) override {
    TORCH_CHECK(current_stream != kDefaultStream, "the default stream cannot be recorded");
    operators_ = Operators(current_stream);
    recording = &operators_;
  }
  void capture_end() override { recording = nullptr; }
  void instantiate() override {}
  void replay() override {
    const Work work(/*is_replay=*/true);
    operators_.Replay();
  }
  void reset() override { operators_ = Operators(kDefaultStream); }
  at::MempoolId_t pool() const override { return {0, 0}; }
  void enable_debug_mode() override {}
  void debug_dump(const std::string& /*path*/) override {}

 private:
  Operators operators_{kDefaultStream};
};
using at::GraphImplRegistry;
using at::RegistererGraphImplRegistry;
REGISTER_GRAPH_IMPL(HPU, Graph)
#endif

std::atomic<std::int64_t> n_waits = 0;

// All work is done when a call returns, so no wait is needed.
struct Guard final : c10::impl::NoOpDeviceGuardImpl<kType> {
  void record(void** /*event*/, const c10::Stream& /*stream*/, c10::DeviceIndex /*device*/,
              c10::EventFlag /*flag*/) const override {}
  void block(void* /*event*/, const c10::Stream& /*stream*/) const override {}
  void synchronizeDevice(const c10::DeviceIndex /*device*/) const override { ++n_waits; }
  bool queryEvent(void* /*event*/) const override { return true; }
  c10::Device getDevice() const override { return kDevice; }
  c10::Device exchangeDevice(c10::Device /*device*/) const override { return kDevice; }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, kDefaultStream);
  }
  c10::Stream getStream(c10::Device device) const noexcept override {
    return c10::Stream(c10::Stream::UNSAFE, device, current_stream);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device,
                                      bool /*is_high_priority*/) const override {
    static std::atomic<c10::StreamId> last = kDefaultStream;
    return c10::Stream(c10::Stream::UNSAFE, device, ++last);
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    const c10::StreamId before = std::exchange(current_stream, stream.id());
    return c10::Stream(c10::Stream::UNSAFE, stream.device(), before);
  }
};
C10_REGISTER_GUARD_IMPL(HPU, Guard)

const bool kHasAllocator = (c10::SetAllocator(kType, &TheMemory()), true);

}  // namespace

c10::Device DistantDevice() { return kDevice; }

std::int64_t DistantDeviceWaits() { return n_waits; }

std::int64_t DistantDeviceStarts() { return Work::n_started; }

}  // namespace dp_bench
