// TrainState as JSON. Doubles are written with all digits, so that they are read back bit by bit.
#include "train/train_state.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/errors.h"
#include "core/json.h"

namespace dp_bench::train {
namespace {

void VisitGradScaler(const core::JsonFields& fields, GradScalerState* c) {
  fields("scale", &c->scale);
  fields("growth_tracker", &c->growth_tracker);
  fields("skips_in_a_row", &c->skips_in_a_row);
}

void VisitStep(const core::JsonFields& fields, TrainStepResult* c) {
  fields("loss", &c->loss);
  fields("parts", &c->parts);
  fields.IfSet("grad_norm", &c->grad_norm);
  fields("lr", &c->lr);
  fields("n_rows", &c->n_rows);
}

// All but the states above, which only some trainings have.
void VisitState(const core::JsonFields& fields, TrainState* c) {
  fields("global_step", &c->global_step);
  fields("optimizer_step", &c->optimizer_step);
  fields("epoch", &c->epoch);
  fields("batch_in_epoch", &c->batch_in_epoch);
  fields("train_loss_sum", &c->train_loss_sum);
  fields("ema_step", &c->ema_step);
  fields.IfSet("seconds", &c->seconds);
  fields("log_position", &c->log_position);
  fields.IfSet("dataset_sha256", &c->dataset_sha256);
  fields("topk", &c->topk);
  fields.IfSet("saved_as", &c->saved_as);
  fields.IfSet("replaced", &c->replaced);
}

void RequireCounts(const TrainState& state, const core::JsonView& json) {
  for (const auto& [key, count] : {std::pair("global_step", state.global_step),
                                   {"optimizer_step", state.optimizer_step},
                                   {"epoch", state.epoch},
                                   {"batch_in_epoch", state.batch_in_epoch},
                                   {"ema_step", state.ema_step},
                                   {"log_position", state.log_position}}) {
    if (count < 0) json.At(key).Fail("expected 0 or more, found {}", count);
  }
}

/// Throws unless it is the name of a checkpoint next to `latest`. Files may be hostile, and a
/// checkpoint of that name may be removed.
void RequireCheckpointName(const std::string& name, const std::string& origin) {
  if (name.starts_with("epoch=") && name.find('/') == std::string::npos) return;
  throw CheckpointError(
      "the training state of '{}' is damaged: '{}' is not the name of a checkpoint", origin, name);
}

}  // namespace

std::string TrainState::ToJson() const {
  nlohmann::json json = core::ToFields(*this, VisitState);
  if (grad_scaler) json["grad_scaler"] = core::ToFields(*grad_scaler, VisitGradScaler);
  if (last_step) json["last_step"] = core::ToFields(*last_step, VisitStep);
  return json.dump(1) + "\n";
}

TrainState TrainState::FromJson(const std::string& text, const std::string& origin) {
  const std::string what = fmt::format("the training state of '{}' is damaged", origin);
  const nlohmann::json parsed = core::ParseJson(text, what, ErrorCode::kCheckpoint);
  const core::JsonView json(parsed, what, ErrorCode::kCheckpoint);
  auto state = core::FromFields<TrainState>(json, VisitState);
  RequireCounts(state, json);
  if (json.Has("grad_scaler")) {
    state.grad_scaler = core::FromFields<GradScalerState>(json.At("grad_scaler"), VisitGradScaler);
  }
  if (json.Has("last_step")) {
    state.last_step = core::FromFields<TrainStepResult>(json.At("last_step"), VisitStep);
  }
  for (const auto& [name, metric] : state.topk) RequireCheckpointName(name, origin);
  for (const std::string& name : state.saved_as) RequireCheckpointName(name, origin);
  if (state.replaced) RequireCheckpointName(*state.replaced, origin);
  return state;
}

}  // namespace dp_bench::train
