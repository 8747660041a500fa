// The library's only export.
#include "dp_bench/plugin.h"

#include "gymnasium_env.h"

DPB_EXPORT_PLUGIN(dp_bench::Env, "gymnasium", "1.0.0", &dp_bench::gymnasium::Describe,
                  &dp_bench::gymnasium::Create)
