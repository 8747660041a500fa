// Weights of a policy in and out of checkpoints, by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dp_bench/array.h"
#include "dp_bench/normalizer.h"
#include "dp_bench/policy.h"
#include "dp_bench/tensor.h"
#include "run/checkpoint.h"

namespace dp_bench::run {

/// Copies of all parameters and buffers on the host.
ArrayMap ModuleState(const torch::nn::Module& module);

/// Makes `arrays` ModuleState(module). Arrays that already have the name, dtype and shape are
/// written over, in one pass and without new memory.
void CopyModuleState(const torch::nn::Module& module, ArrayMap* arrays);

/// Copies the tensors into the module, wherever its parameters live. Strict: throws
/// Error{kCheckpoint} listing every missing, unknown or differently shaped tensor before any is
/// copied. `origin` is named in the message.
void LoadModuleState(torch::nn::Module& module, const ArrayMap& tensors, std::string_view origin);

/// Which tensors of a module are meant, by regexes (ECMAScript) searched in their names: those that
/// one of `include_keys` is found in, or all where there is none, without those of `exclude_keys`.
struct TensorSelection {
  std::vector<std::string> include_keys = {};
  std::vector<std::string> exclude_keys = {};
};

/// LoadModuleState for the selected tensors alone; the others of the module stay as they are, those
/// of `tensors` are ignored. As strict for what is selected, by name on either side. Returns how
/// many were copied. Throws Error{kConfig} for a text that is no regex or is found in no name.
std::size_t LoadSelectedState(torch::nn::Module& module, const ArrayMap& tensors,
                              const TensorSelection& selection, std::string_view origin);

/// Host copies of a state dictionary, and back. CopyToArrays is to ToArrays what CopyModuleState is
/// to ModuleState.
ArrayMap ToArrays(const TensorMap& tensors);
void CopyToArrays(const TensorMap& tensors, ArrayMap* arrays);
TensorMap ToTensors(const ArrayMap& arrays);

enum class Weights { kModel, kEma };

/// The file of a checkpoint that holds them. Throws Error{kCheckpoint} naming the other ones when
/// the checkpoint was saved without.
std::string_view WeightsFile(const Checkpoint& checkpoint, Weights weights);

/// "<key>.scale", "<key>.offset", "<key>.min", ".max", ".mean", ".std", ".count", ".mode".
TensorMap NormalizerState(const Normalizer& normalizer);

/// Throws Error{kCheckpoint} for what no NormalizerState is.
Normalizer NormalizerFromState(const TensorMap& state);

/// The normalizer that a checkpoint's policy was trained with.
Normalizer NormalizerOf(const Checkpoint& checkpoint);

/// Loads weights and normalizer of a verified checkpoint into a policy created from its config.
/// Throws Error{kCheckpoint} when the checkpoint does not have the weights that are wanted.
void LoadPolicyWeights(const Checkpoint& checkpoint, Policy& policy, Weights weights);

}  // namespace dp_bench::run
