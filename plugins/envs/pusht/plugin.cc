// The entry of the env plugin `pusht`.
#include <dp_bench/plugin.h>

#include "pusht_env.h"

namespace {

std::unique_ptr<dp_bench::Env> Create(const dp_bench::Config& params) {
  return std::make_unique<dp_bench::pusht::PushtEnv>(params);
}

}  // namespace

DPB_EXPORT_PLUGIN(dp_bench::Env, "pusht", "1.0.0", Create)
