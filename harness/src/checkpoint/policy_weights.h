// Weights of a policy in and out of checkpoints, by name.
#pragma once

#include <filesystem>
#include <string_view>

#include "checkpoint/checkpoint.h"
#include "dp_bench/array.h"
#include "dp_bench/normalizer.h"
#include "dp_bench/policy.h"
#include "dp_bench/tensor.h"

namespace dp_bench {

/// Copies of all parameters and buffers on the host.
ArrayMap ModuleState(const torch::nn::Module& module);

/// Makes `arrays` ModuleState(module). Arrays that already have the name, dtype and shape are
/// written over, in one pass and without new memory.
void CopyModuleState(const torch::nn::Module& module, ArrayMap* arrays);

/// Copies the tensors into the module, wherever its parameters live. Strict: throws
/// Error{kCheckpoint} listing every missing, unknown or differently shaped tensor before any is
/// copied. `origin` is named in the message.
void LoadModuleState(torch::nn::Module& module, const ArrayMap& tensors, std::string_view origin);

/// Host copies of a state dictionary, and back. CopyToArrays is to ToArrays what CopyModuleState is
/// to ModuleState.
ArrayMap ToArrays(const TensorMap& tensors);
void CopyToArrays(const TensorMap& tensors, ArrayMap* arrays);
TensorMap ToTensors(const ArrayMap& arrays);

enum class Weights { kModel, kEma };

/// Loads weights and normalizer of a verified checkpoint into a policy created from its config.
/// Throws Error{kCheckpoint} when the checkpoint has no EMA weights and they are wanted.
void LoadPolicyWeights(const Checkpoint& checkpoint, Policy& policy, Weights weights);

}  // namespace dp_bench
