#include "policy/repeated_work.h"

#if __has_include(<ATen/core/GraphImplInterface.h>)
#include <ATen/core/GraphImplInterface.h>
#endif
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#ifdef DPB_CUDA
#include <ATen/cuda/CUDAGraph.h>
#endif

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "core/errors.h"
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
  // Of the gradients of `inputs` that require one and of `parameters`, if there are any.
  Recording(std::unique_ptr<DeviceGraph> graph, const std::vector<Tensor>& inputs,
            const std::vector<Tensor>& parameters, const Work& work)
      : graph_(std::move(graph)) {
    const c10::Device device = inputs.front().device();
    for (const Tensor& input : inputs) {
      inputs_.push_back(input.detach().clone().set_requires_grad(input.requires_grad()));
    }
    const std::vector<Tensor> sources = WithGradient(inputs_, parameters);
    Synchronize(device);  // the recording's stream does not wait for the current one
    const auto* streams = c10::impl::getDeviceGuardImpl(device.type());
    const c10::StreamGuard stream(streams->getStreamFromGlobalPool(device));
    // libraries allocate when a thread first uses them, which no recording may contain
    RunOnce(work, sources);
    Synchronize(device);
    // autocast remembers converted weights, and the graph must convert them each time
    at::autocast::clear_cache();
    RecordingScope scope(*graph_);
    RunOnce(work, sources);
    scope.End();
    at::autocast::clear_cache();
  }

  // The tensors of both lists that require a gradient.
  static std::vector<Tensor> WithGradient(const std::vector<Tensor>& inputs,
                                          const std::vector<Tensor>& parameters) {
    std::vector<Tensor> all;
    for (const std::vector<Tensor>* tensors : {&inputs, &parameters}) {
      std::ranges::copy_if(*tensors, std::back_inserter(all), &Tensor::requires_grad);
    }
    return all;
  }

  Tensor Replay(const std::vector<Tensor>& inputs) {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs_[i].copy_(inputs[i]);
    graph_->Replay();
    ++n_replays_;
    return result_.clone();
  }

  // Of the last replay, in the order of WithGradient; undefined where the result does not depend.
  const std::vector<Tensor>& gradients() const { return gradients_; }
  std::int64_t n_replays() const { return n_replays_; }

 private:
  void RunOnce(const Work& work, const std::vector<Tensor>& sources) {
    const Tensor result = work(inputs_);
    if (!sources.empty()) {
      gradients_ = torch::autograd::grad({result}, sources, /*grad_outputs=*/{},
                                         /*retain_graph=*/std::nullopt, /*create_graph=*/false,
                                         /*allow_unused=*/true);
    }
    result_ = result.detach();
  }

  std::unique_ptr<DeviceGraph> graph_;
  std::vector<Tensor> inputs_;  // the memory that the graph reads
  Tensor result_;               // the memory that it writes, like the next
  std::vector<Tensor> gradients_;
  std::int64_t n_replays_ = 0;
};

namespace {

std::vector<std::vector<std::int64_t>> SignatureOf(const std::vector<Tensor>& inputs,
                                                   const std::vector<Tensor>& parameters) {
  std::vector<std::vector<std::int64_t>> signature;
  for (const Tensor& input : inputs) {
    signature.push_back(input.sizes().vec());
    signature.back().push_back(static_cast<std::int64_t>(input.scalar_type()));
    signature.back().push_back(input.requires_grad() ? 1 : 0);
  }
  for (const Tensor& parameter : parameters) {
    signature.push_back(
        {static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(parameter.const_data_ptr())),
         parameter.requires_grad() ? 1 : 0});
  }
  return signature;
}

}  // namespace

RepeatedWork::RepeatedWork() = default;
RepeatedWork::~RepeatedWork() = default;

// Null for the first call in a row with inputs of these shapes, and where nothing is recorded.
std::shared_ptr<RepeatedWork::Recording> RepeatedWork::RecordingOf(
    const std::vector<Tensor>& inputs, const std::vector<Tensor>& parameters, const Work& work) {
  const c10::DeviceType device = inputs.front().device().type();
  const MakeGraph make_graph = GraphsOf(device);
  if (make_graph == nullptr || IsTracingStages()) return nullptr;

  Signature signature = SignatureOf(inputs, parameters);
  if (recording_ == nullptr || signature != recorded_) {
    if (signature != last_) {
      last_ = std::move(signature);
      return nullptr;
    }
    recording_.reset();
    recording_ = std::make_shared<Recording>(make_graph(device), inputs, parameters, work);
    recorded_ = std::move(signature);
  }
  last_.clear();
  return recording_;
}

Tensor RepeatedWork::Run(const std::vector<Tensor>& inputs, const Work& work) {
  if (torch::GradMode::is_enabled()) return work(inputs);
  const auto recording = RecordingOf(inputs, /*parameters=*/{}, work);
  return recording == nullptr ? work(inputs) : recording->Replay(inputs);
}

// The scalar of a replay, whose gradients are those of the graph.
class RepeatedWork::ReplayedScalar : public torch::autograd::Function<ReplayedScalar> {
 public:
  struct Source : torch::CustomClassHolder {
    std::shared_ptr<Recording> recording;
    std::int64_t n_replays = 0;
  };

  static Tensor forward(torch::autograd::AutogradContext* ctx, at::TensorList /*sources*/,
                        const std::shared_ptr<Recording>& recording,
                        const std::vector<Tensor>& inputs) {
    Tensor result = recording->Replay(inputs);
    auto source = c10::make_intrusive<Source>();
    source->recording = recording;
    source->n_replays = recording->n_replays();
    ctx->saved_data["source"] = c10::IValue::make_capsule(source);
    return result;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& grads) {
    const auto capsule = ctx->saved_data["source"].toCapsule();
    const auto& source = static_cast<const Source&>(*capsule);
    if (source.n_replays != source.recording->n_replays()) {
      throw InternalError("a loss was differentiated after the next one was computed");
    }
    std::vector<Tensor> gradients = source.recording->gradients();
    std::vector<Tensor> defined;
    std::ranges::copy_if(gradients, std::back_inserter(defined), &Tensor::defined);
    // new tensors, because the next replay overwrites the memory of these
    auto next = torch::_foreach_mul(defined, grads[0]);
    for (std::size_t i = 0, k = 0; i < gradients.size(); ++i) {
      if (gradients[i].defined()) gradients[i] = std::move(next[k++]);
    }
    gradients.resize(gradients.size() + 2);  // forward's other arguments have none
    return gradients;
  }
};

Tensor RepeatedWork::RunWithGradient(const std::vector<Tensor>& inputs,
                                     const std::vector<Tensor>& parameters, const Work& work) {
  if (!torch::GradMode::is_enabled()) return work(inputs);
  const auto recording = [&] {
    try {
      return RecordingOf(inputs, parameters, work);
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const c10::Error& error) {
      throw RecordingError(error.what_without_backtrace());
    }
  }();
  if (recording == nullptr) return work(inputs);
  const std::vector<Tensor> sources = Recording::WithGradient(inputs, parameters);
  return ReplayedScalar::apply(at::TensorList(sources), recording, inputs);
}

void RepeatedWork::Forget() {
  recording_.reset();
  last_.clear();
}

}  // namespace dp_bench::policy
