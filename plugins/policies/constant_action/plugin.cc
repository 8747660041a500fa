// The library's only export. The host finds the policy by this name.
#include "dp_bench/plugin.h"

#include "constant_action_policy.h"
#include "dp_bench/policy.h"

DPB_EXPORT_PLUGIN(dp_bench::Policy, "constant_action", "1.0.0",
                  &dp_bench::constant_action::ConstantActionPolicy::Create)
