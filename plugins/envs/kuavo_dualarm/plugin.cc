// The entry of the env plugin `kuavo_dualarm`, the one symbol that the library exports.
#include <dp_bench/plugin.h>

#include "kuavo_env.h"

namespace {

std::unique_ptr<dp_bench::Env> Create(const dp_bench::Config& params) {
  return std::make_unique<dp_bench::kuavo_dualarm::KuavoEnv>(params);
}

}  // namespace

DPB_EXPORT_PLUGIN(dp_bench::Env, "kuavo_dualarm", "1.0.0", Create)
