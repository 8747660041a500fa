// The library's only export.
#include "dp_bench/plugin.h"

#include "dp_bench/policy.h"
#include "unet_hybrid_policy.h"

DPB_EXPORT_PLUGIN(dp_bench::Policy, "unet_hybrid", "1.0.0",
                  &dp_bench::unet_hybrid::UnetHybridPolicy::Create)
