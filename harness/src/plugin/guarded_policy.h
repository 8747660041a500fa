// The guard for policies, in a separate file because the Policy interface needs LibTorch. Include
// it where PluginCatalogue::Create<Policy> is used.
#pragma once

#include <memory>

#include "dp_bench/policy.h"
#include "plugin/catalogue.h"
#include "plugin/guard.h"

namespace dp_bench::plugin {

/// The same policy with every call guarded. LibTorch's errors keep their message without the
/// backtrace.
std::unique_ptr<Policy> GuardPlugin(std::unique_ptr<Policy> policy, PluginPlace place);

}  // namespace dp_bench::plugin
