// The parameters of a network by module.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace dp_bench::train {

/// One module, or one parameter that belongs directly to a module with children.
struct ModuleSize {
  std::string name;  // relative to its parent; chains of single children are joined: "a.b"
  int depth = 0;     // 0: a child of the root
  std::int64_t n_parameters = 0;
};

/// The modules below `root` that have parameters, each followed by its children, down to `n_levels`
/// levels. The rows of one level below the same parent add up to that parent.
std::vector<ModuleSize> ModuleSizes(const torch::nn::Module& root, int n_levels);

/// The number of values in all parameters.
std::int64_t NumParameters(const torch::nn::Module& module);

}  // namespace dp_bench::train
