#include "view/planner_source.h"

#include <algorithm>

#include "rollout/shape_match.h"

namespace dp_bench::view {

PlannerSource::PlannerSource(Env& env, control::ChunkPlanner& planner, const ShapeMeta& shape_meta,
                             const Horizons& horizons)
    : env_(env), seen_(env.spec()), loop_(planner, shape_meta, horizons) {
  const std::vector<int> index_of_env = rollout::MatchObsKeys(env.spec().shape_meta, shape_meta);
  for (std::size_t i = 0; i < index_of_env.size(); ++i) {
    if (index_of_env[i] < 0) continue;
    const KeySpec& key = seen_.keys()[i];
    wanted_.emplace_back(key.name, seen_[i].data(), key.dtype, Dims(key.StorageShape()));
  }
}

Supply PlannerSource::Next(std::span<float> action) {
  seen_.Observe(env_);
  std::ranges::copy(loop_.Act(wanted_), action.begin());
  return Supply::kAction;
}

}  // namespace dp_bench::view
