// A function of tensors as a graph of LibTorch's operators, recorded while the function runs.
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <functional>
#include <string>
#include <vector>

namespace dp_bench::graph {

/// An input of a graph, without the batch, which comes first.
struct GraphInput {
  std::string name;                 // an identifier
  std::vector<std::int64_t> shape;  // per row of the batch
  torch::ScalarType type = torch::kFloat32;
};

/// A recorded function. `module` owns its parameters and has one method, forward, which takes the
/// inputs and returns a tensor.
struct TracedGraph {
  torch::jit::Module module;
  std::vector<GraphInput> inputs;
};

using TensorFunction = std::function<torch::Tensor(const std::vector<torch::Tensor>& inputs)>;

/// Records `function`, which uses parameters and buffers of `owner`. The batch size of the graph is
/// free: the function is recorded for two of them, and sizes that differ are computed from the
/// input's. `owner` no longer asks for gradients afterwards. Throws Error{kConfig} naming the
/// operator if a size is no multiple of the batch, or if the operators depend on it.
TracedGraph Trace(const std::string& name, torch::nn::Module& owner,
                  const std::vector<GraphInput>& inputs, const TensorFunction& function);

}  // namespace dp_bench::graph
