// TrainState as JSON. Doubles are written with all their digits, so that they come back bit by bit.
#include "train/train_state.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "dp_bench/error.h"

namespace dp_bench {
namespace {

nlohmann::ordered_json ToJson(const EarlyStopState& state) {
  nlohmann::ordered_json json = {{"best_epoch", state.best_epoch},
                                 {"epochs_without_improvement", state.epochs_without_improvement}};
  if (state.best) json["best"] = *state.best;
  return json;
}

EarlyStopState EarlyStopFromJson(const nlohmann::json& json) {
  EarlyStopState state;
  json.at("best_epoch").get_to(state.best_epoch);
  json.at("epochs_without_improvement").get_to(state.epochs_without_improvement);
  if (json.contains("best")) state.best = json.at("best").get<double>();
  return state;
}

nlohmann::ordered_json ToJson(const GradScalerState& state) {
  return {{"scale", state.scale},
          {"growth_tracker", state.growth_tracker},
          {"skips_in_a_row", state.skips_in_a_row}};
}

GradScalerState GradScalerFromJson(const nlohmann::json& json) {
  GradScalerState state;
  json.at("scale").get_to(state.scale);
  json.at("growth_tracker").get_to(state.growth_tracker);
  json.at("skips_in_a_row").get_to(state.skips_in_a_row);
  return state;
}

nlohmann::ordered_json ToJson(const TrainStepResult& step) {
  nlohmann::ordered_json json = {
      {"loss", step.loss}, {"parts", step.parts}, {"lr", step.lr}, {"n_rows", step.n_rows}};
  if (step.grad_norm) json["grad_norm"] = *step.grad_norm;
  return json;
}

TrainStepResult LastStepFromJson(const nlohmann::json& json) {
  TrainStepResult step;
  json.at("loss").get_to(step.loss);
  json.at("parts").get_to(step.parts);
  json.at("lr").get_to(step.lr);
  json.at("n_rows").get_to(step.n_rows);
  if (json.contains("grad_norm")) step.grad_norm = json.at("grad_norm").get<double>();
  return step;
}

/// Throws unless it is the name of a checkpoint beside `latest`: files may be hostile, and what has
/// such a name may be removed.
void RequireCheckpointName(const std::string& name, const std::string& origin) {
  if (name.starts_with("epoch=") && name.find('/') == std::string::npos) return;
  throw Error(ErrorCode::kCheckpoint,
              fmt::format("the training state of '{}' is damaged: '{}' is no name of a checkpoint",
                          origin, name));
}

}  // namespace

std::string TrainState::ToJson() const {
  nlohmann::ordered_json json = {{"global_step", global_step},
                                 {"optimizer_step", optimizer_step},
                                 {"epoch", epoch},
                                 {"batch_in_epoch", batch_in_epoch},
                                 {"train_loss_sum", train_loss_sum},
                                 {"ema_step", ema_step},
                                 {"log_position", log_position},
                                 {"topk", topk}};
  if (!saved_as.empty()) json["saved_as"] = saved_as;
  if (replaced) json["replaced"] = *replaced;
  if (early_stop != EarlyStopState{}) json["early_stop"] = dp_bench::ToJson(early_stop);
  if (grad_scaler) json["grad_scaler"] = dp_bench::ToJson(*grad_scaler);
  if (last_step) json["last_step"] = dp_bench::ToJson(*last_step);
  return json.dump(1) + "\n";
}

TrainState TrainState::FromJson(const std::string& text, const std::string& origin) {
  TrainState state;
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    json.at("global_step").get_to(state.global_step);
    json.at("optimizer_step").get_to(state.optimizer_step);
    json.at("epoch").get_to(state.epoch);
    json.at("batch_in_epoch").get_to(state.batch_in_epoch);
    json.at("train_loss_sum").get_to(state.train_loss_sum);
    json.at("ema_step").get_to(state.ema_step);
    json.at("log_position").get_to(state.log_position);
    json.at("topk").get_to(state.topk);
    if (json.contains("saved_as")) json.at("saved_as").get_to(state.saved_as);
    if (json.contains("replaced")) state.replaced = json.at("replaced").get<std::string>();
    // a checkpoint from before early stopping has none
    if (json.contains("early_stop")) state.early_stop = EarlyStopFromJson(json.at("early_stop"));
    if (json.contains("grad_scaler")) {
      state.grad_scaler = GradScalerFromJson(json.at("grad_scaler"));
    }
    if (json.contains("last_step")) state.last_step = LastStepFromJson(json.at("last_step"));
    for (const auto& [name, metric] : state.topk) RequireCheckpointName(name, origin);
    for (const std::string& name : state.saved_as) RequireCheckpointName(name, origin);
    if (state.replaced) RequireCheckpointName(*state.replaced, origin);
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kCheckpoint,
                fmt::format("the training state of '{}' is damaged: {}", origin, error.what()));
  }
  return state;
}

}  // namespace dp_bench
