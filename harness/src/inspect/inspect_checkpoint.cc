// See inspect_checkpoint.h.
#include "inspect/inspect_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/console.h"
#include "core/json.h"
#include "inspect/inspect_policy.h"
#include "planner/create_from_checkpoint.h"
#include "policy/normalize_mode.h"
#include "report/render.h"

namespace dp_bench::inspect {
namespace {

using Json = nlohmann::json;

// Appends a tensor with NaN or Inf values to the list.
template <class T>
void CountNonFinite(const std::string& name, std::span<const T> values, Json* list) {
  const auto n_nan = std::ranges::count_if(values, [](T value) { return std::isnan(value); });
  const auto n_inf = std::ranges::count_if(values, [](T value) { return std::isinf(value); });
  if (n_nan + n_inf == 0) return;
  list->push_back({{"name", name}, {"nan", n_nan}, {"inf", n_inf}, {"values", values.size()}});
}

Json InspectFile(const run::Checkpoint& checkpoint, std::string_view name) {
  Json non_finite = Json::array();
  std::size_t n_tensors = 0;
  std::size_t n_bytes = 0;
  for (const auto& [tensor, array] : checkpoint.ReadTensors(name)) {
    ++n_tensors;
    n_bytes += array.byte_size();
    if (array.dtype() == DType::kFloat32) CountNonFinite(tensor, array.as<float>(), &non_finite);
    if (array.dtype() == DType::kFloat64) CountNonFinite(tensor, array.as<double>(), &non_finite);
  }
  return {{"name", name}, {"n_tensors", n_tensors}, {"bytes", n_bytes}, {"non_finite", non_finite}};
}

Json NormalizerJson(const Normalizer& normalizer) {
  Json json;
  for (const auto& [key, field] : normalizer.fields()) {
    json[key] = {{"mode", policy::NameOf(field.mode)},
                 {"dims", field.scale.numel()},
                 {"min", field.stats.min},
                 {"max", field.stats.max},
                 {"mean", field.stats.mean},
                 {"std", field.stats.std},
                 {"zero_range_dims", field.zero_range_dims}};
  }
  return json;
}

}  // namespace

bool HasNonFinite(const Json& inspection) {
  return std::ranges::any_of(inspection["files"],
                             [](const Json& file) { return !file["non_finite"].empty(); });
}

Json InspectCheckpoint(const std::filesystem::path& folder, plugin::PluginCatalogue& catalogue,
                       int n_levels) {
  const run::Checkpoint checkpoint = run::Checkpoint::Open(folder);
  const Config config = Config::FromJson(checkpoint.config(), (folder / "config.json").string());
  const auto policy = planner::CreateFromCheckpoint(checkpoint, config, catalogue,
                                                    planner::EvaluatedWeights(checkpoint));
  Json inspection = {{"checkpoint", folder.string()},
                     {"policy", config.Sub("policy").Get<std::string>("plugin")},
                     {"task", core::Printable(config.Get<std::string>("name", ""))},
                     {"state", core::ParseJson(checkpoint.state(), (folder / "state.json").string(),
                                               ErrorCode::kCheckpoint)},
                     {"normalizer", NormalizerJson(planner::NormalizerOf(checkpoint))},
                     {"files", Json::array()}};
  inspection.update(InspectModules(policy->module(), n_levels));
  for (const std::string_view file : {run::kModelFile, run::kEmaFile, run::kNormalizerFile,
                                      run::kOptimizerFile, run::kGradientsFile}) {
    if (checkpoint.Has(file)) inspection["files"].push_back(InspectFile(checkpoint, file));
  }
  return inspection;
}

std::string CheckpointText(Json inspection) {
  AddModuleRows(&inspection);
  inspection["is_broken"] = HasNonFinite(inspection);
  for (Json& file : inspection["files"]) {
    file["mib"] = file["bytes"].get<double>() / (1 << 20);
    for (Json& tensor : file["non_finite"]) tensor["file"] = file["name"];
  }
  const auto as_rows = [](const Json& object, const auto& row) {
    Json rows = Json::array();
    for (const auto& [key, value] : object.items()) rows.push_back(row(key, value));
    return rows;
  };
  inspection["state"] = as_rows(inspection["state"], [](const std::string& key, const Json& value) {
    return Json{{"key", key}, {"value", value.dump()}};
  });
  inspection["normalizer"] =
      as_rows(inspection["normalizer"], [](const std::string& key, const Json& field) {
        return Json{{"key", key},
                    {"mode", field["mode"]},
                    {"n_dims", field["dims"]},
                    {"n_zero_range", field["zero_range_dims"].size()}};
      });
  return report::Render("checkpoint.txt", inspection);
}

}  // namespace dp_bench::inspect
