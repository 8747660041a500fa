#include "run/perturbation_effects.h"

#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/json.h"
#include "run/run_files.h"

namespace dp_bench::run {
namespace {

using Json = nlohmann::json;

Json ToJson(const std::string& folder, const SplitSummary& result) {
  return {{"folder", folder},
          {"n_episodes", result.n_episodes},
          {"n_success", result.n_success},
          {"n_failed", result.n_failed},
          {"success_rate", result.success_rate},
          {"mean_score", result.mean_score}};
}

Json ToJson(const ArmDifference& effect) {
  return {{"difference", effect.difference}, {"low", effect.low}, {"high", effect.high}};
}

Json ToJson(const PerturbedArm& arm) {
  Json row = ToJson(arm.folder, arm.result);
  row["name"] = arm.name;
  row["kind"] = arm.kind;
  row["strength"] = arm.strength ? Json(*arm.strength) : Json();
  row["note"] = arm.note;
  row["n_changed"] = arm.n_changed;
  row["success_rate_effect"] = ToJson(arm.success_rate);
  row["success_rate_effect"]["p_mcnemar"] = arm.p_mcnemar;
  row["success_rate_effect"]["p_holm"] = arm.p_holm;
  row["score_effect"] = ToJson(arm.score);
  return row;
}

// Fields that no page shows are optional.
SplitSummary ToResult(const core::JsonView& json) {
  return {.n_episodes = json.Get<int>("n_episodes"),
          .n_success = json.Get<int>("n_success"),
          .n_failed = json.GetOptional<int>("n_failed").value_or(0),
          .mean_score = json.Get<double>("mean_score"),
          .success_rate = json.Get<double>("success_rate")};
}

ArmDifference ToDifference(const core::JsonView& json) {
  const ArmDifference open;
  return {.difference = json.GetOptional<double>("difference").value_or(open.difference),
          .low = json.GetOptional<double>("low").value_or(open.low),
          .high = json.GetOptional<double>("high").value_or(open.high)};
}

PerturbedArm ToArm(const core::JsonView& json) {
  const core::JsonView rate = json.At("success_rate_effect");
  return {.name = json.Get<std::string>("name"),
          .kind = json.GetOptional<std::string>("kind").value_or(""),
          .strength = json.GetOptional<double>("strength"),
          .note = json.Get<std::string>("note"),
          .folder = json.GetOptional<std::string>("folder").value_or(""),
          .result = ToResult(json),
          .success_rate = ToDifference(rate),
          .score = ToDifference(json.At("score_effect")),
          .p_mcnemar = rate.GetOptional<double>("p_mcnemar").value_or(1.0),
          .p_holm = rate.GetOptional<double>("p_holm").value_or(1.0),
          .n_changed = json.Get<int>("n_changed")};
}

}  // namespace

void WriteEffects(const std::filesystem::path& folder, const PerturbationEffects& effects) {
  Json arms = Json::array();
  for (const PerturbedArm& arm : effects.arms) arms.push_back(ToJson(arm));
  const Json json = {
      {"confidence", 0.95}, {"control", ToJson(".", effects.control)}, {"arms", arms}};
  core::WriteFileAtomically(folder / kEffectsFile, std::string_view(json.dump(2) + "\n"));
}

PerturbationEffects ParseEffects(std::string_view text, const std::string& origin) {
  const Json json = core::ParseJson(text, origin);
  const core::JsonView view(json, origin);
  PerturbationEffects effects = {.control = ToResult(view.At("control"))};
  for (const core::JsonView& arm : view.Elements("arms")) effects.arms.push_back(ToArm(arm));
  return effects;
}

}  // namespace dp_bench::run
