#include "run/perturbation_effects.h"

#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/json.h"
#include "run/run_files.h"

namespace dp_bench::run {
namespace {

using Json = nlohmann::json;

// Fields that no page shows may be missing.
void VisitResult(const core::JsonFields& fields, SplitSummary* c) {
  fields("n_episodes", &c->n_episodes);
  fields("n_success", &c->n_success);
  fields.Lenient("n_failed", &c->n_failed);
  fields.Lenient("n_policy_faults", &c->n_policy_faults);
  fields("success_rate", &c->success_rate);
  fields("mean_score", &c->mean_score);
}

void VisitDifference(const core::JsonFields& fields, ArmDifference* c) {
  fields.Lenient("difference", &c->difference);
  fields.Lenient("low", &c->low);
  fields.Lenient("high", &c->high);
}

void VisitArm(const core::JsonFields& fields, PerturbedArm* c) {
  fields.Lenient("folder", &c->folder);
  VisitResult(fields, &c->result);
  fields("name", &c->name);
  fields.Lenient("kind", &c->kind);
  fields("strength", &c->strength);
  fields("note", &c->note);
  fields("n_changed", &c->n_changed);
  fields.Object("success_rate_effect", [&](const core::JsonFields& effect) {
    VisitDifference(effect, &c->success_rate);
    effect.Lenient("p_mcnemar", &c->p_mcnemar);
    effect.Lenient("p_holm", &c->p_holm);
  });
  fields.Object("score_effect",
                [&](const core::JsonFields& effect) { VisitDifference(effect, &c->score); });
}

}  // namespace

void WriteEffects(const std::filesystem::path& folder, const PerturbationEffects& effects) {
  Json arms = Json::array();
  for (const PerturbedArm& arm : effects.arms) arms.push_back(core::ToFields(arm, VisitArm));
  Json control = core::ToFields(effects.control, VisitResult);
  control["folder"] = ".";
  const Json json = {{"confidence", 0.95}, {"control", control}, {"arms", arms}};
  core::WriteFileAtomically(folder / kEffectsFile, json.dump(2) + "\n");
}

PerturbationEffects ParseEffects(std::string_view text, const std::string& origin) {
  const Json json = core::ParseJson(text, origin);
  const core::JsonView view(json, origin);
  PerturbationEffects effects = {
      .control = core::FromFields<SplitSummary>(view.At("control"), VisitResult)};
  for (const core::JsonView& arm : view.Elements("arms"))
    effects.arms.push_back(core::FromFields<PerturbedArm>(arm, VisitArm));
  return effects;
}

}  // namespace dp_bench::run
