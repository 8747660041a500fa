#include "rollout/shape_match.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "core/errors.h"
#include "data/key_check.h"

namespace dp_bench::rollout {
namespace {

std::string Describe(const ShapeMeta& meta) {
  std::vector<KeySpec> keys = meta.obs;
  keys.push_back(meta.action);
  return data::Describe(keys);
}

}  // namespace

std::vector<int> MatchObsKeys(const ShapeMeta& env, const ShapeMeta& wanted) {
  std::vector<int> index_of_env(env.obs.size(), -1);
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < wanted.obs.size(); ++i) {
    const auto found = std::ranges::find(env.obs, wanted.obs[i].name, &KeySpec::name);
    if (found == env.obs.end()) {
      problems.push_back(fmt::format("the env does not offer '{}'", wanted.obs[i].name));
    } else if (*found != wanted.obs[i]) {
      problems.push_back(fmt::format("'{}' is {}, the env's {}", wanted.obs[i].name,
                                     data::Describe(wanted.obs[i]), data::Describe(*found)));
    } else {
      index_of_env[static_cast<std::size_t>(found - env.obs.begin())] = static_cast<int>(i);
    }
  }
  if (env.action != wanted.action) {
    problems.push_back(fmt::format("the action is {}, the env's {}", data::Describe(wanted.action),
                                   data::Describe(env.action)));
  }
  if (!problems.empty()) {
    throw ShapeError(
        "shape_meta does not fit the env: {}. Correct shape_meta, or leave it out to use all that "
        "the env offers.\n  shape_meta: {}\n  the env: {}",
        fmt::join(problems, "; "), Describe(wanted), Describe(env));
  }
  return index_of_env;
}

}  // namespace dp_bench::rollout
