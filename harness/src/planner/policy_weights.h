// Saves and loads the weights of a policy, by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dp_bench/array.h"
#include "dp_bench/normalizer.h"
#include "dp_bench/policy.h"
#include "dp_bench/tensor.h"
#include "run/checkpoint.h"

namespace dp_bench::planner {

/// Host copies of all parameters and buffers.
ArrayMap ModuleState(const torch::nn::Module& module);

/// Sets `arrays` to ModuleState(module). Arrays with the same name, dtype and shape are reused
/// without a new allocation.
void CopyModuleState(const torch::nn::Module& module, ArrayMap* arrays);

/// Copies the tensors into those of `wanted`, on any device. Strict: if tensors are missing,
/// unknown or of another shape, throws Error{kCheckpoint} listing all of them, and copies none. The
/// message says `what` they are ("the weights of 'x'") and ends with the advice.
void LoadTensors(const TensorMap& wanted, const ArrayMap& tensors, std::string_view what,
                 std::string_view advice);

/// The same for a module. The message names `origin`.
void LoadModuleState(torch::nn::Module& module, const ArrayMap& tensors, std::string_view origin);

/// Selects tensors of a module by regular expressions (ECMAScript) that are searched in their
/// names: those that match any of `include_keys` (empty: all), minus those that match any of
/// `exclude_keys`.
struct TensorSelection {
  std::vector<std::string> include_keys = {};
  std::vector<std::string> exclude_keys = {};
};

/// LoadModuleState for the selected tensors only. Other tensors of the module keep their values,
/// others of `tensors` are ignored. Strict for the selected names of both sides. Returns the number
/// of copied tensors. Throws Error{kConfig} for an invalid regex and for one that matches no name.
std::size_t LoadSelectedState(torch::nn::Module& module, const ArrayMap& tensors,
                              const TensorSelection& selection, std::string_view origin);

/// Host copies of a state dictionary, and back. CopyToArrays reuses memory as CopyModuleState does.
ArrayMap ToArrays(const TensorMap& tensors);
void CopyToArrays(const TensorMap& tensors, ArrayMap* arrays);
TensorMap ToTensors(const ArrayMap& arrays);

/// All elements, from any device and of any type of number.
std::vector<double> ToNumbers(const torch::Tensor& tensor);

enum class Weights { kModel, kEma };

/// The averaged weights, if the checkpoint has them.
Weights EvaluatedWeights(const run::Checkpoint& checkpoint);

/// The file with these weights. If the checkpoint was saved without them, throws Error{kCheckpoint}
/// naming the other weights.
std::string_view WeightsFile(const run::Checkpoint& checkpoint, Weights weights);

/// "<key>.scale", "<key>.offset", "<key>.min", ".max", ".mean", ".std", ".count", ".mode".
TensorMap NormalizerState(const Normalizer& normalizer);

/// Throws Error{kCheckpoint} if `state` is not from NormalizerState.
Normalizer NormalizerFromState(const TensorMap& state);

/// The normalizer that a checkpoint's policy was trained with.
Normalizer NormalizerOf(const run::Checkpoint& checkpoint);

/// Loads weights and normalizer of a verified checkpoint into a policy created from its config.
/// Throws Error{kCheckpoint} if the checkpoint does not have these weights.
void LoadPolicyWeights(const run::Checkpoint& checkpoint, Policy& policy, Weights weights);

}  // namespace dp_bench::planner
