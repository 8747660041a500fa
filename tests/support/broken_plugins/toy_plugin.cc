// A good header around ToyEnv; the name is set by the build.
#include "dp_bench/plugin.h"
#include "toy_env.h"

DPB_EXPORT_PLUGIN(dp_bench::Env, TOY_NAME, "0.1.0", &dp_bench::broken::ToyEnv::Describe,
                  &dp_bench::broken::ToyEnv::Create)
