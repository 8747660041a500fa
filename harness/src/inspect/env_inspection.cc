#include "inspect/env_inspection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace dp_bench::inspect {
namespace {

using nlohmann::json;

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

std::vector<std::string> MetricNames(const EnvSpec& spec) {
  std::vector<std::string> names;
  for (const MetricSpec& metric : spec.metrics) {
    names.push_back(fmt::format("{} ({})", metric.name, NameOf(metric.aggregate)));
  }
  return names;
}

std::vector<std::string> PerturbationNames(const EnvSpec& spec) {
  std::vector<std::string> names;
  for (const PerturbationSpec& kind : spec.perturbations) {
    names.push_back(fmt::format("{} ({:g} to {:g})", kind.name, kind.low, kind.high));
  }
  return names;
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

std::string KeyTable(const EnvSpec& spec) {
  std::size_t width = spec.shape_meta.action.name.size();
  for (const KeySpec& key : spec.shape_meta.obs) width = std::max(width, key.name.size());
  std::string table =
      fmt::format("{:<{}}  {:<8} {:<14} {}\n", "key", width, "type", "shape", "dtype");
  const auto add = [&](const KeySpec& key, std::string_view type) {
    table += fmt::format("{:<{}}  {:<8} {:<14} {}\n", key.name, width, type, ToString(key.shape),
                         Name(key.dtype));
  };
  for (const KeySpec& key : spec.shape_meta.obs) add(key, Name(key.type));
  add(spec.shape_meta.action, "action");
  return table;
}

std::string Line(const char* label, const std::vector<std::string>& names) {
  return names.empty() ? "" : fmt::format("{:<14} {}\n", label, fmt::join(names, ", "));
}

// As the section shape_meta of a task config.
json ShapeMetaJson(const ShapeMeta& meta) {
  json obs = json::object();
  for (const KeySpec& key : meta.obs) {
    obs[key.name] = {{"shape", key.shape}, {"type", std::string(Name(key.type))}};
  }
  return {{"obs", obs}, {"action", {{"shape", meta.action.shape}}}};
}

}  // namespace

std::string ToText(const EnvInspection& inspection) {
  const EnvSpec& spec = inspection.spec;
  std::string text =
      fmt::format("{}: env plugin '{}', {:g} Hz, at most {} steps\n\n{}\n", inspection.name,
                  inspection.plugin, spec.control_hz, spec.max_steps, KeyTable(spec));
  text += fmt::format("action bounds  {::g} to {::g}\n", spec.action_low, spec.action_high);
  text += Line("metrics", MetricNames(spec)) + Line("tasks", spec.tasks) +
          Line("obs", spec.obs_modes) + Line("perturbations", PerturbationNames(spec)) +
          Line("offers", AbilityNames(spec.abilities));
  return text + fmt::format("\nThe task has no data set. Its shape_meta:\n{}\n",
                            ShapeMetaJson(spec.shape_meta).dump());
}

json ToJson(const EnvInspection& inspection) {
  const EnvSpec& spec = inspection.spec;
  const EnvAbilities& abilities = spec.abilities;
  json metrics = json::array();
  for (const MetricSpec& metric : spec.metrics) {
    metrics.push_back({{"name", metric.name}, {"aggregate", NameOf(metric.aggregate)}});
  }
  json perturbations = json::array();
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
