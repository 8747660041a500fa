// The entry of the env plugin `point_mass`, the one symbol that the library exports.
#include <dp_bench/plugin.h>

#include "point_mass_env.h"

namespace {

std::unique_ptr<dp_bench::Env> Create(const dp_bench::Config& params) {
  return std::make_unique<dp_bench::point_mass::PointMassEnv>(params);
}

}  // namespace

DPB_EXPORT_PLUGIN(dp_bench::Env, "point_mass", "1.0.0", Create)
