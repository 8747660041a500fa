// The library's only export.
#include "dp_bench/plugin.h"

#include "point_mass_env.h"

using dp_bench::point_mass::PointMassEnv;

DPB_EXPORT_PLUGIN(dp_bench::Env, "point_mass", "1.0.0", &PointMassEnv::Describe,
                  &dp_bench::CreateInstance<dp_bench::Env, PointMassEnv>)
