// The guard for policies, in a separate file because the Policy interface needs LibTorch. Include
// it where PluginCatalogue::Create<Policy> is used.
#pragma once

#include <memory>

#include "dp_bench/policy.h"
#include "plugin/catalogue.h"
#include "plugin/guard.h"

namespace dp_bench::plugin {

/// The same policy with every call guarded. LibTorch's errors keep their message without the
/// backtrace. What policy.h says about results is checked: the spec and the module (now), that the
/// loss is a scalar with gradient, and that actions are [B, Ta, Da] float32. Whether the loss is
/// finite is checked in training, which can name the batch. `spec`: what the policy was created
/// for.
std::unique_ptr<Policy> GuardPlugin(std::unique_ptr<Policy> policy, PluginPlace place,
                                    const PolicySpec& spec);

/// The policy inside a guard, for code that knows its class; an unguarded policy itself.
Policy& Unguarded(Policy& policy);

/// Computes the gradients of a loss that `policy` returned: `loss`, or a multiple of it. If the
/// policy is guarded, errors name the plugin.
void ComputeGradients(const Policy& policy, const torch::Tensor& loss);

}  // namespace dp_bench::plugin
