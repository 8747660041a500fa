// See module_sizes.h.
#include "train/module_sizes.h"

#include <utility>

namespace dp_bench::train {
namespace {

void Append(const torch::nn::Module& parent, int depth, int n_levels,
            std::vector<ModuleSize>* rows) {
  if (depth == n_levels) return;
  const auto children = parent.named_children();
  if (children.is_empty() && depth > 0)
    return;  // the weight and bias of a layer get no separate rows
  for (const auto& parameter : parent.named_parameters(/*recurse=*/false)) {
    rows->push_back({parameter.key(), depth, parameter.value().numel()});
  }
  for (const auto& child : children) {
    std::string name = child.key();
    const torch::nn::Module* module = child.value().get();
    std::shared_ptr<torch::nn::Module> only;
    while (module->children().size() == 1 && module->parameters(/*recurse=*/false).empty()) {
      const auto below = module->named_children();
      name += "." + below.front().key();
      only = below.front().value();
      module = only.get();
    }
    const std::int64_t n = NumParameters(*module);
    if (n == 0) continue;
    rows->push_back({std::move(name), depth, n});
    Append(*module, depth + 1, n_levels, rows);
  }
}

}  // namespace

std::vector<ModuleSize> ModuleSizes(const torch::nn::Module& root, int n_levels) {
  std::vector<ModuleSize> rows;
  Append(root, /*depth=*/0, n_levels, &rows);
  return rows;
}

std::int64_t NumParameters(const torch::nn::Module& module) {
  std::int64_t n = 0;
  for (const torch::Tensor& parameter : module.parameters()) n += parameter.numel();
  return n;
}

}  // namespace dp_bench::train
