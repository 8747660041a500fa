#include "view/action_source.h"

#include "dp_bench/error.h"

namespace dp_bench::view {

ExpertSource::ExpertSource(Env& env) : env_(env) {
  if (env.spec().abilities.has_expert) return;
  throw Error(ErrorCode::kUsage,
              "--expert: this env has no expert; give --checkpoint, --dataset or --human instead");
}

Supply ExpertSource::Next(std::span<float> action) {
  env_.Act(action);
  return Supply::kAction;
}

PointerSource::PointerSource(Env& env) : env_(env) {
  if (env.spec().abilities.has_pointer_control) return;
  throw Error(ErrorCode::kUsage,
              "--human: this env cannot be moved with a pointer; give --checkpoint, --expert or "
              "--dataset instead");
}

Supply PointerSource::Next(std::span<float> action) {
  if (!pointer_.is_down) return Supply::kWait;
  env_.PointerAction(pointer_.x, pointer_.y, action);
  return Supply::kAction;
}

}  // namespace dp_bench::view
