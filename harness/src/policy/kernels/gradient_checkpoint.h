// Gradient checkpointing (Chen et al. 2016, "Training deep nets with sublinear memory cost"). Only
// the inputs of a network block are kept, and its activations are computed again when the backward
// pass needs them. LibTorch has torch.utils.checkpoint only in Python.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <vector>

#include "dp_bench/policy/kernels/token_ops.h"

namespace dp_bench::policy {

/// `run` may use only its inputs and the modules' parameters; anything else gets no gradient. All
/// inputs and outputs must be defined, and no input may be changed in place.
struct CheckpointedBlock {
  using Tensors = std::vector<torch::Tensor>;

  std::vector<std::shared_ptr<torch::nn::Module>> modules;
  std::function<Tensors(const Tensors& inputs, DropoutMasks* dropout)> run;
};

/// Calls block.run(inputs, dropout), and calls it again in the backward pass. Values and gradients
/// equal those of a plain call bit for bit: the second run draws the same dropout masks, uses the
/// same autocast, and does not update batch norm statistics. A plain call if no gradient is needed.
std::vector<torch::Tensor> RunCheckpointed(const CheckpointedBlock& block,
                                           const std::vector<torch::Tensor>& inputs,
                                           DropoutMasks* dropout = nullptr);

}  // namespace dp_bench::policy
