// The library's only export.
#include "dp_bench/plugin.h"

#include "kuavo_env.h"

using dp_bench::kuavo_dualarm::KuavoEnv;

DPB_EXPORT_PLUGIN(dp_bench::Env, "kuavo_dualarm", "1.0.0", &KuavoEnv::Describe,
                  &dp_bench::CreateInstance<dp_bench::Env, KuavoEnv>)
