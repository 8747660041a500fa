// TrainState as JSON. Doubles are written with all digits, so that they are read back bit by bit.
#include "train/train_state.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/json.h"
#include "dp_bench/error.h"

namespace dp_bench::train {
namespace {

nlohmann::ordered_json ToJson(const EarlyStopState& state) {
  nlohmann::ordered_json json = {{"best_epoch", state.best_epoch},
                                 {"epochs_without_improvement", state.epochs_without_improvement}};
  if (state.best) json["best"] = *state.best;
  return json;
}

EarlyStopState EarlyStopFrom(const core::JsonView& json) {
  return {.best = json.GetOptional<double>("best"),
          .best_epoch = json.Get<int>("best_epoch"),
          .epochs_without_improvement = json.Get<int>("epochs_without_improvement")};
}

nlohmann::ordered_json ToJson(const GradScalerState& state) {
  return {{"scale", state.scale},
          {"growth_tracker", state.growth_tracker},
          {"skips_in_a_row", state.skips_in_a_row}};
}

GradScalerState GradScalerFrom(const core::JsonView& json) {
  return {.scale = json.Get<float>("scale"),
          .growth_tracker = json.Get<std::int64_t>("growth_tracker"),
          .skips_in_a_row = json.Get<int>("skips_in_a_row")};
}

nlohmann::ordered_json ToJson(const TrainStepResult& step) {
  nlohmann::ordered_json json = {
      {"loss", step.loss}, {"parts", step.parts}, {"lr", step.lr}, {"n_rows", step.n_rows}};
  if (step.grad_norm) json["grad_norm"] = *step.grad_norm;
  return json;
}

TrainStepResult LastStepFrom(const core::JsonView& json) {
  return {.loss = json.Get<double>("loss"),
          .parts = json.Get<std::map<std::string, double>>("parts"),
          .grad_norm = json.GetOptional<double>("grad_norm"),
          .lr = json.Get<double>("lr"),
          .n_rows = json.Get<std::int64_t>("n_rows")};
}

/// A count: an integer that is not negative.
template <class Integer>
Integer CountIn(const core::JsonView& json, const char* key) {
  const auto count = json.Get<Integer>(key);
  if (count < 0) json.At(key).Fail(fmt::format("expected 0 or more, found {}", count));
  return count;
}

/// Throws unless it is the name of a checkpoint next to `latest`. Files may be hostile, and a
/// checkpoint of that name may be removed.
void RequireCheckpointName(const std::string& name, const std::string& origin) {
  if (name.starts_with("epoch=") && name.find('/') == std::string::npos) return;
  throw Error(
      ErrorCode::kCheckpoint,
      fmt::format("the training state of '{}' is damaged: '{}' is not the name of a checkpoint",
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
  if (early_stop != EarlyStopState{}) json["early_stop"] = train::ToJson(early_stop);
  if (grad_scaler) json["grad_scaler"] = train::ToJson(*grad_scaler);
  if (last_step) json["last_step"] = train::ToJson(*last_step);
  return json.dump(1) + "\n";
}

TrainState TrainState::FromJson(const std::string& text, const std::string& origin) {
  const std::string what = fmt::format("the training state of '{}' is damaged", origin);
  const nlohmann::json parsed = core::ParseJson(text, what, ErrorCode::kCheckpoint);
  const core::JsonView json(parsed, what, ErrorCode::kCheckpoint);
  TrainState state = {.global_step = CountIn<std::int64_t>(json, "global_step"),
                      .optimizer_step = CountIn<std::int64_t>(json, "optimizer_step"),
                      .epoch = CountIn<int>(json, "epoch"),
                      .batch_in_epoch = CountIn<std::int64_t>(json, "batch_in_epoch"),
                      .train_loss_sum = json.Get<double>("train_loss_sum"),
                      .ema_step = CountIn<std::int64_t>(json, "ema_step"),
                      .log_position = CountIn<std::int64_t>(json, "log_position"),
                      .topk = json.Get<std::map<std::string, double>>("topk")};
  if (json.Has("saved_as")) state.saved_as = json.Get<std::vector<std::string>>("saved_as");
  state.replaced = json.GetOptional<std::string>("replaced");
  // a checkpoint from before early stopping has none
  if (json.Has("early_stop")) state.early_stop = EarlyStopFrom(json.At("early_stop"));
  if (json.Has("grad_scaler")) state.grad_scaler = GradScalerFrom(json.At("grad_scaler"));
  if (json.Has("last_step")) state.last_step = LastStepFrom(json.At("last_step"));
  for (const auto& [name, metric] : state.topk) RequireCheckpointName(name, origin);
  for (const std::string& name : state.saved_as) RequireCheckpointName(name, origin);
  if (state.replaced) RequireCheckpointName(*state.replaced, origin);
  return state;
}

}  // namespace dp_bench::train
