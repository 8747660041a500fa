#include "inspect/env_inspection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "report/render.h"

namespace dp_bench::inspect {
namespace {

using Json = nlohmann::json;

const char* NameOf(Aggregate aggregate) {
  switch (aggregate) {
    case Aggregate::kMax:
      return "max";
    case Aggregate::kMean:
      return "mean";
    case Aggregate::kLast:
      return "last";
  }
  return "";
}

std::vector<std::string> AbilityNames(const EnvAbilities& abilities) {
  std::vector<std::string> names;
  if (abilities.has_expert) names.emplace_back("expert");
  if (abilities.state_size > 0) names.push_back(fmt::format("state ({})", abilities.state_size));
  if (abilities.has_pointer_control) names.emplace_back("pointer control");
  if (!abilities.cameras.empty()) {
    names.push_back(fmt::format("cameras ({})", fmt::join(abilities.cameras, ", ")));
  }
  if (abilities.n_marks > 0) names.push_back(fmt::format("marks ({})", abilities.n_marks));
  return names;
}

// As the section shape_meta of a task config.
Json ShapeMetaJson(const ShapeMeta& meta) {
  Json obs = Json::object();
  for (const KeySpec& key : meta.obs) {
    obs[key.name] = {{"shape", key.shape}, {"type", std::string(Name(key.type))}};
  }
  return {{"obs", obs}, {"action", {{"shape", meta.action.shape}}}};
}

Json KeyRow(const KeySpec& key, std::string_view type) {
  return {{"key", key.name},
          {"type", type},
          {"shape", ToString(key.shape)},
          {"dtype", Name(key.dtype)}};
}

}  // namespace

std::string ToText(const EnvInspection& inspection) {
  const EnvSpec& spec = inspection.spec;
  Json view = ToJson(inspection);
  view["keys"] = Json::array();
  for (const KeySpec& key : spec.shape_meta.obs)
    view["keys"].push_back(KeyRow(key, Name(key.type)));
  view["keys"].push_back(KeyRow(spec.shape_meta.action, "action"));
  view["shape_meta"] = view["shape_meta"].dump();
  view["facts"] = {{{"name", "action bounds"},
                    {"text", fmt::format("{::g} to {::g}", spec.action_low, spec.action_high)}}};
  const auto add = [&](const char* name, const std::vector<std::string>& texts) {
    if (texts.empty()) return;
    view["facts"].push_back({{"name", name}, {"text", fmt::format("{}", fmt::join(texts, ", "))}});
  };
  std::vector<std::string> metrics;
  for (const MetricSpec& metric : spec.metrics) {
    metrics.push_back(fmt::format("{} ({})", metric.name, NameOf(metric.aggregate)));
  }
  std::vector<std::string> perturbations;
  for (const PerturbationSpec& kind : spec.perturbations) {
    perturbations.push_back(fmt::format("{} ({:g} to {:g})", kind.name, kind.low, kind.high));
  }
  add("metrics", metrics);
  add("tasks", spec.tasks);
  add("obs", spec.obs_modes);
  add("perturbations", perturbations);
  add("offers", AbilityNames(spec.abilities));
  return report::Render("env.txt", view);
}

nlohmann::json ToJson(const EnvInspection& inspection) {
  const EnvSpec& spec = inspection.spec;
  const EnvAbilities& abilities = spec.abilities;
  Json metrics = Json::array();
  for (const MetricSpec& metric : spec.metrics) {
    metrics.push_back({{"name", metric.name}, {"aggregate", NameOf(metric.aggregate)}});
  }
  Json perturbations = Json::array();
  for (const PerturbationSpec& kind : spec.perturbations) {
    perturbations.push_back({{"name", kind.name}, {"low", kind.low}, {"high", kind.high}});
  }
  return {{"name", inspection.name},
          {"plugin", inspection.plugin},
          {"control_hz", spec.control_hz},
          {"max_steps", spec.max_steps},
          {"shape_meta", ShapeMetaJson(spec.shape_meta)},
          {"action_low", spec.action_low},
          {"action_high", spec.action_high},
          {"metrics", metrics},
          {"tasks", spec.tasks},
          {"obs_modes", spec.obs_modes},
          {"perturbations", perturbations},
          {"abilities",
           {{"state_size", abilities.state_size},
            {"has_expert", abilities.has_expert},
            {"has_pointer_control", abilities.has_pointer_control},
            {"cameras", abilities.cameras},
            {"n_marks", abilities.n_marks}}}};
}

}  // namespace dp_bench::inspect
