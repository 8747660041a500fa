#include "view/action_source.h"

#include <algorithm>

#include "core/errors.h"
#include "rollout/shape_match.h"

namespace dp_bench::view {

ExpertSource::ExpertSource(Env& env) : env_(env) {
  if (env.spec().abilities.has_expert) return;
  throw UsageError("--expert: this env has no expert; give --checkpoint or --human instead");
}

bool ExpertSource::Next(std::span<float> action) {
  env_.Act(action);
  return true;
}

PointerSource::PointerSource(Env& env) : env_(env) {
  if (env.spec().abilities.has_pointer_control) return;
  throw UsageError(
      "--human: this env cannot be moved with a pointer; give --checkpoint or --expert instead");
}

bool PointerSource::Next(std::span<float> action) {
  if (!pointer_.is_down) return false;
  env_.PointerAction(pointer_.x, pointer_.y, action);
  return true;
}

PlannerSource::PlannerSource(Env& env, control::ChunkPlanner& planner, const ShapeMeta& shape_meta,
                             const Horizons& horizons, const control::LoopOptions& options)
    : env_(env), seen_(env.spec()), loop_(planner, shape_meta, horizons, options) {
  const std::vector<int> index_of_env = rollout::MatchObsKeys(env.spec().shape_meta, shape_meta);
  for (std::size_t i = 0; i < index_of_env.size(); ++i) {
    if (index_of_env[i] < 0) continue;
    const KeySpec& key = seen_.keys()[i];
    wanted_.emplace_back(key.name, seen_[i].data(), key.dtype, Dims(key.StorageShape()));
  }
}

bool PlannerSource::Next(std::span<float> action) {
  seen_.Observe(env_);
  std::ranges::copy(loop_.Act(wanted_), action.begin());
  return true;
}

}  // namespace dp_bench::view
