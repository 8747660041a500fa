// PushT with params given as JSON, and what it observes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/config.h"
#include "pusht_env.h"

namespace dp_bench::pusht {

inline PushtEnv Make(const std::string& json = "{}") { return PushtEnv(Config::FromJson(json)); }

/// The only observation of an env with one low-dimensional key.
inline std::vector<float> Look(PushtEnv& env) {
  std::vector<float> values(env.spec().shape_meta.obs[0].ByteSize() / sizeof(float));
  std::vector<std::span<std::byte>> views = {std::as_writable_bytes(std::span(values))};
  env.Observe({env.spec().shape_meta.obs, views});
  return values;
}

}  // namespace dp_bench::pusht
