// Strict loading by name and shape.
#include "checkpoint/policy_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "dp_bench/error.h"

namespace dp_bench {
namespace {

/// Parameters and buffers, sharing memory with the module.
TensorMap NamedTensors(const torch::nn::Module& module) {
  TensorMap tensors;
  for (const auto& item : module.named_parameters()) tensors[item.key()] = item.value();
  for (const auto& item : module.named_buffers()) tensors[item.key()] = item.value();
  return tensors;
}

std::vector<std::string> Differences(const TensorMap& wanted, const ArrayMap& found) {
  std::vector<std::string> problems;
  for (const auto& [name, tensor] : wanted) {
    const auto array = found.find(name);
    if (array == found.end()) {
      problems.push_back(fmt::format("{}: missing, wanted {}", name, ToString(tensor.sizes())));
    } else if (tensor.sizes() != at::IntArrayRef(array->second.shape()) ||
               ToDType(tensor.scalar_type()) != array->second.dtype()) {
      problems.push_back(fmt::format("{}: wanted {} {}, found {} {}", name,
                                     Name(ToDType(tensor.scalar_type())), ToString(tensor.sizes()),
                                     Name(array->second.dtype()), ToString(array->second.shape())));
    }
  }
  for (const auto& [name, array] : found) {
    if (!wanted.contains(name)) {
      problems.push_back(
          fmt::format("{}: not part of the policy, found {}", name, ToString(array.shape())));
    }
  }
  return problems;
}

void CopyToArray(const torch::Tensor& tensor, Array* array) {
  const DType dtype = ToDType(tensor.scalar_type());
  if (array->dtype() != dtype || tensor.sizes() != at::IntArrayRef(array->shape())) {
    *array = Array(dtype, tensor.sizes().vec());
  }
  if (array->size() == 0) return;
  // LibTorch copies on all its threads, from any device, and out of any order in memory
  const torch::NoGradGuard no_grad;
  torch::from_blob(array->bytes().data(), tensor.sizes(), tensor.scalar_type()).copy_(tensor);
}

}  // namespace

ArrayMap ModuleState(const torch::nn::Module& module) { return ToArrays(NamedTensors(module)); }

void CopyModuleState(const torch::nn::Module& module, ArrayMap* arrays) {
  CopyToArrays(NamedTensors(module), arrays);
}

void LoadModuleState(torch::nn::Module& module, const ArrayMap& tensors, std::string_view origin) {
  const TensorMap wanted = NamedTensors(module);
  const std::vector<std::string> problems = Differences(wanted, tensors);
  if (!problems.empty()) {
    throw Error(
        ErrorCode::kCheckpoint,
        fmt::format("the weights of '{}' do not fit the policy:\n  {}\nCreate the policy from "
                    "the config of that checkpoint.",
                    origin, fmt::join(problems, "\n  ")));
  }
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : wanted) tensor.copy_(ToTensor(tensors.find(name)->second));
}

ArrayMap ToArrays(const TensorMap& tensors) {
  ArrayMap arrays;
  for (const auto& [name, tensor] : tensors) arrays.emplace(name, ToArray(tensor));
  return arrays;
}

void CopyToArrays(const TensorMap& tensors, ArrayMap* arrays) {
  std::erase_if(*arrays, [&](const auto& item) { return !tensors.contains(item.first); });
  for (const auto& [name, tensor] : tensors) CopyToArray(tensor, &(*arrays)[name]);
}

TensorMap ToTensors(const ArrayMap& arrays) {
  TensorMap tensors;
  for (const auto& [name, array] : arrays) tensors.emplace(name, ToTensor(array));
  return tensors;
}

void LoadPolicyWeights(const Checkpoint& checkpoint, Policy& policy, Weights weights) {
  const std::string_view file = weights == Weights::kEma ? kEmaFile : kModelFile;
  LoadModuleState(policy.module(), checkpoint.ReadTensors(file),
                  (checkpoint.folder() / file).string());
  policy.SetNormalizer(
      Normalizer::FromStateDict(ToTensors(checkpoint.ReadTensors(kNormalizerFile))));
  policy.WeightsChanged();
}

}  // namespace dp_bench
