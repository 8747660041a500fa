// Where the parameters of a network are.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace dp_bench::train {

/// One module, or one parameter that a module with children holds itself.
struct ModuleSize {
  std::string name;  // below its parent; modules without anything beside them are joined: "a.b"
  int depth = 0;     // 0: a child of the root
  std::int64_t n_parameters = 0;
};

/// The modules below `root` that have parameters, each followed by its own children, down to
/// `n_levels` levels. The rows of one level below the same parent add up to it.
std::vector<ModuleSize> ModuleSizes(const torch::nn::Module& root, int n_levels);

/// Numbers in all parameters.
std::int64_t NumParameters(const torch::nn::Module& module);

}  // namespace dp_bench::train
