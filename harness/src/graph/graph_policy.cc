// See graph_policy.h.
#include "graph/graph_policy.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "core/errors.h"
#include "graph/onnx.h"

namespace dp_bench::graph {
namespace {

constexpr const char* kLibrary = "libdp_bench_openvino.so";
constexpr std::array<std::string_view, 3> kBackendNames = {"torch", "torchscript", "openvino"};

// OpenVINO on the CPU, in float32, from the library that links it.
OpenVinoEntry* FindOpenVino() {
  // never closed: its objects live as long as policies do
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  void* const entry = library == nullptr ? nullptr : dlsym(library, kOpenVinoEntry);
  if (entry != nullptr) return reinterpret_cast<OpenVinoEntry*>(entry);
  throw PluginError(
      "policy.backend=openvino: expected {} beside the libraries of dp_bench, found none that "
      "loads ({}). It is built where OpenVINO is installed: run scripts/setup.sh and build again",
      kLibrary, dlerror());
}

std::unique_ptr<GraphRuntime> MakeRuntime(Backend backend, const PolicyGraphs& graphs) {
  if (backend == Backend::kTorchScript) return MakeTorchScriptRuntime(graphs);
  return std::unique_ptr<GraphRuntime>(
      FindOpenVino()({.encoder = ToOnnx(graphs.encoder, "condition"),
                      .denoiser = ToOnnx(graphs.denoiser, "prediction")},
                     at::get_num_threads()));
}

class GraphPolicy final : public Policy {
 public:
  GraphPolicy(Backend backend, std::unique_ptr<Policy> policy, const Normalizer& normalizer)
      : policy_(std::move(policy)),
        graphs_(MakePolicyGraphs(*policy_, normalizer)),
        runtime_(MakeRuntime(backend, graphs_)) {}

  const PolicySpec& spec() const override { return graphs_.spec; }
  torch::nn::Module& module() override { return policy_->module(); }

  void SetNormalizer(const Normalizer&) override { Refuse(); }
  LossOutput ComputeLoss(const Batch&, NoiseSource&) override { Refuse(); }

  torch::Tensor PredictAction(const TensorMap& obs, NoiseSource& noise) override {
    const torch::NoGradGuard no_grad;
    return PredictWithGraphs(graphs_, *runtime_, obs, noise).contiguous();
  }

 private:
  [[noreturn]] static void Refuse() {
    throw ConfigError("policy.backend: graphs plan and do nothing else; train with torch");
  }

  std::unique_ptr<Policy> policy_;
  PolicyGraphs graphs_;
  std::unique_ptr<GraphRuntime> runtime_;
};

}  // namespace

std::string_view Name(Backend backend) {
  return kBackendNames.at(static_cast<std::size_t>(backend));
}

Backend ReadBackend(const Config& policy) {
  const auto name = policy.GetOptional<std::string>(
      "backend",
      "what plans on the CPU: torch (default), or the graphs that `dp_bench export` writes, run by "
      "LibTorch (torchscript) or by OpenVINO (openvino)");
  const auto* const found = std::ranges::find(kBackendNames, name.value_or("torch"));
  if (found == kBackendNames.end()) {
    throw ConfigError("{}: expected torch, torchscript or openvino, found '{}'",
                      policy.Where("backend"), *name);
  }
  return static_cast<Backend>(found - kBackendNames.begin());
}

std::unique_ptr<Policy> WithBackend(Backend backend, std::unique_ptr<Policy> policy,
                                    const Normalizer& normalizer) {
  if (backend == Backend::kTorch) return policy;
  if (!policy->module().parameters().front().device().is_cpu()) {
    throw ConfigError(
        "policy.backend: graphs run on the CPU: expected training.device=cpu, found {}",
        policy->module().parameters().front().device().str());
  }
  return std::make_unique<GraphPolicy>(backend, std::move(policy), normalizer);
}

}  // namespace dp_bench::graph
