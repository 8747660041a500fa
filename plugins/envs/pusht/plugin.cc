// The library's only export.
#include "dp_bench/plugin.h"

#include "pusht_env.h"

using dp_bench::pusht::PushtEnv;

DPB_EXPORT_PLUGIN(dp_bench::Env, "pusht", "1.0.0", &PushtEnv::Describe,
                  &dp_bench::CreateInstance<dp_bench::Env, PushtEnv>)
