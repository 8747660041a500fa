// See gradient_checkpoint.h. Each block is one node of the autograd graph. Its inputs are the
// block's inputs and the parameters, so gradients are summed in the same order as without it.
#include "policy/kernels/gradient_checkpoint.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/batchnorm.h>

#include <cstddef>
#include <optional>
#include <utility>

#include "policy/kernels/loop_tensors.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// What the second run needs besides tensors.
struct Replay : torch::CustomClassHolder {
  CheckpointedBlock block;
  std::size_t n_inputs = 0;
  std::optional<DropoutMasks> dropout;  // state before the first run
  torch::DeviceType device = torch::kCPU;
  std::optional<torch::ScalarType> autocast;
};

// Stops batch norms in training mode from updating their running statistics: the first run already
// did.
class StatisticsGuard {
 public:
  explicit StatisticsGuard(const CheckpointedBlock& block) {
    for (const auto& module : block.modules) {
      for (const auto& child : module->modules()) {
        auto norm = std::dynamic_pointer_cast<torch::nn::BatchNorm2dImpl>(child);
        if (!norm || !norm->is_training()) continue;
        kept_.push_back({norm, norm->running_mean, norm->running_var, norm->num_batches_tracked});
        norm->running_mean = norm->running_var = norm->num_batches_tracked = Tensor();
      }
    }
  }
  StatisticsGuard(const StatisticsGuard&) = delete;
  StatisticsGuard& operator=(const StatisticsGuard&) = delete;
  ~StatisticsGuard() {
    for (const Kept& kept : kept_) {
      kept.norm->running_mean = kept.mean;
      kept.norm->running_var = kept.var;
      kept.norm->num_batches_tracked = kept.n_batches;
    }
  }

 private:
  struct Kept {
    std::shared_ptr<torch::nn::BatchNorm2dImpl> norm;
    Tensor mean, var, n_batches;
  };
  std::vector<Kept> kept_;
};

// The inputs as leaves of the block's own graph.
tensor_list Leaves(at::TensorList inputs) {
  tensor_list leaves;
  for (const Tensor& input : inputs) {
    leaves.push_back(input.detach().set_requires_grad(input.requires_grad()));
  }
  return leaves;
}

tensor_list RunAgain(const Replay& replay, const tensor_list& inputs) {
  const torch::AutoGradMode with_gradient(true);
  const StatisticsGuard statistics(replay.block);
  const AutocastGuard autocast(replay.device, replay.autocast);
  std::optional<DropoutMasks> dropout = replay.dropout;
  return replay.block.run(inputs, dropout ? &*dropout : nullptr);
}

class CheckpointFunction : public torch::autograd::Function<CheckpointFunction> {
 public:
  // tensors: inputs, then parameters
  static tensor_list forward(AutogradContext* ctx, at::TensorList tensors,
                             const c10::intrusive_ptr<Replay>& replay, DropoutMasks* dropout) {
    ctx->set_materialize_grads(false);
    ctx->save_for_backward(tensors.vec());
    ctx->saved_data["replay"] = c10::IValue::make_capsule(replay);
    // record gradients although this graph is dropped: without them, other kernels would run
    const torch::AutoGradMode with_gradient(true);
    tensor_list outputs = replay->block.run(Leaves(tensors.slice(0, replay->n_inputs)), dropout);
    for (Tensor& output : outputs) output = output.detach();
    return outputs;
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const auto capsule = ctx->saved_data["replay"].toCapsule();
    const auto& replay = static_cast<const Replay&>(*capsule);
    const tensor_list saved = ctx->get_saved_variables();
    tensor_list sources = Leaves(at::TensorList(saved).slice(0, replay.n_inputs));
    const tensor_list outputs = RunAgain(replay, sources);
    sources.insert(sources.end(), saved.begin() + std::ssize(sources), saved.end());

    tensor_list ends;
    tensor_list grads_of_ends;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!grads[i].defined() || !outputs[i].requires_grad()) continue;
      ends.push_back(outputs[i]);
      grads_of_ends.push_back(grads[i]);
    }
    return GradientsOf(ends, grads_of_ends, sources);
  }

 private:
  // One gradient per argument of forward; none for an argument that has none.
  static tensor_list GradientsOf(const tensor_list& ends, const tensor_list& grads_of_ends,
                                 const tensor_list& sources) {
    tensor_list wanted;
    for (const Tensor& source : sources) {
      if (source.requires_grad()) wanted.push_back(source);
    }
    tensor_list found =
        torch::autograd::grad(ends, wanted, grads_of_ends, /*retain_graph=*/std::nullopt,
                              /*create_graph=*/false, /*allow_unused=*/true);
    tensor_list all;
    auto next = found.begin();
    for (const Tensor& source : sources) {
      all.push_back(source.requires_grad() ? std::move(*next++) : Tensor());
    }
    all.resize(all.size() + 2);
    return all;
  }
};

}  // namespace

std::vector<Tensor> RunCheckpointed(const CheckpointedBlock& block,
                                    const std::vector<Tensor>& inputs, DropoutMasks* dropout) {
  if (!torch::GradMode::is_enabled()) return block.run(inputs, dropout);
  tensor_list tensors = inputs;
  for (const auto& module : block.modules) {
    for (const Tensor& parameter : module->parameters()) tensors.push_back(parameter);
  }
  const auto replay = c10::make_intrusive<Replay>();
  replay->block = block;
  replay->n_inputs = inputs.size();
  if (dropout != nullptr) replay->dropout = *dropout;
  replay->device = inputs.front().device().type();
  replay->autocast = AutocastType(replay->device);
  return CheckpointFunction::apply(at::TensorList(tensors), replay, dropout);
}

}  // namespace dp_bench::policy
