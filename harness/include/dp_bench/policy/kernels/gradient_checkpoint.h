// Gradient checkpointing (Chen et al. 2016, "Training deep nets with sublinear memory cost"): of a
// block of a network only the inputs are kept, and its activations are computed a second time when
// the backward pass needs them. LibTorch has torch.utils.checkpoint for Python alone.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <vector>

#include "dp_bench/policy/kernels/token_ops.h"

namespace dp_bench::policy {

/// Its run reads the inputs and the modules' parameters; whatever else it reads gets no gradient.
/// No tensor of inputs or outputs is undefined, and no input is changed in place.
struct CheckpointedBlock {
  using Tensors = std::vector<torch::Tensor>;

  std::vector<std::shared_ptr<torch::nn::Module>> modules;
  std::function<Tensors(const Tensors& inputs, DropoutMasks* dropout)> run;
};

/// block.run(inputs, dropout), run again in the backward pass. Values and gradients are bit by bit
/// those of a plain call: the second run draws the same dropout masks, runs under the same autocast
/// and leaves the statistics of batch norms alone. A plain call where no gradient is wanted.
std::vector<torch::Tensor> RunCheckpointed(const CheckpointedBlock& block,
                                           const std::vector<torch::Tensor>& inputs,
                                           DropoutMasks* dropout = nullptr);

}  // namespace dp_bench::policy
