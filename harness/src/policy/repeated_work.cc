#include "policy/repeated_work.h"

#if __has_include(<ATen/core/GraphImplInterface.h>)
#include <ATen/core/GraphImplInterface.h>
#endif
#include <ATen/core/grad_mode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#ifdef DPB_CUDA
#include <ATen/cuda/CUDAGraph.h>
#endif

#include <utility>

#include "dp_bench/stage_trace.h"
#include "policy/device.h"

namespace dp_bench::policy {

using torch::Tensor;

// LibTorch's graphs, of any device that has them.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  virtual void Begin() = 0;
  virtual void End() = 0;
  virtual void Replay() = 0;
};

namespace {

#ifdef DPB_CUDA
class CudaGraph final : public DeviceGraph {
 public:
  // other threads go on, among them those that prepare batches in page-locked memory
  void Begin() override { graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal); }
  void End() override { graph_.capture_end(); }
  void Replay() override { graph_.replay(); }

 private:
  at::cuda::CUDAGraph graph_;
};
#endif

#if __has_include(<ATen/core/GraphImplInterface.h>)
class RegisteredGraph final : public DeviceGraph {
 public:
  explicit RegisteredGraph(c10::DeviceType type) : graph_(at::create_graph_impl(type)) {}
  void Begin() override { graph_->capture_begin({0, 0}, at::GraphCaptureMode::ThreadLocal); }
  void End() override { graph_->capture_end(); }
  void Replay() override { graph_->replay(); }

 private:
  std::unique_ptr<at::GraphImplInterface> graph_;
};
#endif

using MakeGraph = std::unique_ptr<DeviceGraph> (*)(c10::DeviceType type);

// Null for a device without graphs.
MakeGraph GraphsOf([[maybe_unused]] c10::DeviceType type) {
#ifdef DPB_CUDA
  if (type == c10::DeviceType::CUDA) {
    return [](c10::DeviceType) -> std::unique_ptr<DeviceGraph> {
      return std::make_unique<CudaGraph>();
    };
  }
#endif
#if __has_include(<ATen/core/GraphImplInterface.h>)
  if (at::has_graph_impl(type)) {
    return [](c10::DeviceType of) -> std::unique_ptr<DeviceGraph> {
      return std::make_unique<RegisteredGraph>(of);
    };
  }
#endif
  return nullptr;
}

// The end of a recording, also after an exception.
class RecordingScope {
 public:
  explicit RecordingScope(DeviceGraph& graph) : graph_(graph) { graph_.Begin(); }
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;
  ~RecordingScope() {
    try {
      End();
    } catch (const c10::Error&) {  // the exception that led here says more
    }
  }

  void End() {
    if (!std::exchange(is_open_, false)) return;
    graph_.End();
  }

 private:
  DeviceGraph& graph_;
  bool is_open_ = true;
};

}  // namespace

class RepeatedWork::Recording {
 public:
  Recording(std::unique_ptr<DeviceGraph> graph, const std::vector<Tensor>& inputs, const Work& work)
      : graph_(std::move(graph)) {
    const c10::Device device = inputs.front().device();
    for (const Tensor& input : inputs) inputs_.push_back(input.detach().clone());
    Synchronize(device);  // the recording's stream does not wait for the current one
    const auto* streams = c10::impl::getDeviceGuardImpl(device.type());
    const c10::StreamGuard stream(streams->getStreamFromGlobalPool(device));
    // libraries allocate when a thread first uses them, which no recording may contain
    work(inputs_);
    Synchronize(device);
    RecordingScope scope(*graph_);
    result_ = work(inputs_);
    scope.End();
  }

  Tensor Replay(const std::vector<Tensor>& inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs_[i].copy_(inputs[i]);
    graph_->Replay();
    return result_.clone();
  }

 private:
  std::unique_ptr<DeviceGraph> graph_;
  std::vector<Tensor> inputs_;  // the memory that the graph reads
  Tensor result_;               // the memory that it writes
};

RepeatedWork::RepeatedWork() = default;
RepeatedWork::~RepeatedWork() = default;

Tensor RepeatedWork::Run(const std::vector<Tensor>& inputs, const Work& work) {
  const c10::DeviceType device = inputs.front().device().type();
  const MakeGraph make_graph = GraphsOf(device);
  if (make_graph == nullptr || IsTracingStages() || torch::GradMode::is_enabled()) {
    return work(inputs);
  }

  std::vector<std::vector<std::int64_t>> shapes;
  for (const Tensor& input : inputs) shapes.push_back(input.sizes().vec());
  if (shapes != shapes_) {
    Forget();
    shapes_ = std::move(shapes);
    return work(inputs);
  }
  if (recording_ == nullptr) {
    recording_ = std::make_unique<Recording>(make_graph(device), inputs, work);
  }
  return recording_->Replay(inputs);
}

void RepeatedWork::Forget() {
  recording_.reset();
  shapes_.clear();
}

}  // namespace dp_bench::policy
