// PushT with params given as JSON.
#pragma once

#include <string>

#include "dp_bench/config.h"
#include "pusht_env.h"

namespace dp_bench::pusht {

inline PushtEnv Make(const std::string& json = "{}") { return PushtEnv(Config::FromJson(json)); }

}  // namespace dp_bench::pusht
