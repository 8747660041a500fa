#include "inspect/inspect_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

#include "core/console.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/machine.h"
#include "planner/create_from_checkpoint.h"
#include "policy/normalize_mode.h"
#include "policy/stage_recorder.h"
#include "report/render.h"
#include "train/batches.h"
#include "train/fit_normalizer.h"
#include "train/step_memory.h"
#include "train/train_config.h"

namespace dp_bench::inspect {
namespace {

using Json = nlohmann::json;

Json TraceLoss(Policy& policy, std::int64_t batch_size) {
  data::HostBatch host = train::SyntheticBatch(policy, batch_size);
  const Batch batch = train::ToBatch(host, policy.spec().shape_meta, torch::kCPU);
  NoiseSource noise =
      train::BatchNoise(/*seed=*/0, train::NoisePurpose::kTraining, /*number=*/0, batch_size);
  policy.module().train();
  const policy::StageRecorder recorder;
  policy.ComputeLoss(batch, noise);
  Json stages = Json::array();
  for (const policy::Stage& stage : recorder.stages()) {
    stages.push_back({{"name", stage.name}, {"shape", stage.shape}, {"dtype", stage.dtype}});
  }
  return stages;
}

// Runs a step of the requested batch size only if it fits in memory.
void RequireRoom(const train::StepMemory& step, const char* option) {
  const std::int64_t free = core::AvailableMemory();
  if (free == 0 || step.total() <= free) return;
  throw UsageError(
      "{} {}: a step of this size needs {:.0f} MiB, {:.0f} MiB are free. Give a smaller one; "
      "larger sizes are estimated without a check.",
      option, step.batch_size, train::Mebibytes(step.total()), train::Mebibytes(free));
}

Json StepJson(const train::StepMemory& step) {
  return {{"batch_size", step.batch_size},
          {"batch", step.batch},
          {"activations", step.activations},
          {"step", step.total()},
          {"is_estimated", step.is_estimated}};
}

Json MemoryJson(Policy& policy, const train::StepMemoryModel& steps, const Config& config,
                const PolicyInspectionOptions& options) {
  const train::HeldMemory held = train::MeasureHeldMemory(policy.module(), config);
  Json memory = {{"unit", "byte"},
                 {"device", "cpu"},
                 {"dtype", "float32"},
                 {"parameters", held.parameters},
                 {"gradients", held.gradients},
                 {"optimizer", held.optimizer},
                 {"ema", held.ema},
                 {"checkpoint_copy", held.checkpoint},
                 {"measured", Json::array()},
                 {"steps", Json::array()}};
  for (const train::StepMemory& step : steps.measured()) {
    memory["measured"].push_back(StepJson(step));
  }
  for (const std::int64_t batch_size : options.batch_sizes) {
    const train::StepMemory step = steps.At(batch_size);
    memory["steps"].push_back(StepJson(step));
    memory["steps"].back()["total"] = held.total() + step.total();
  }
  if (!options.checked_batch_size) return memory;
  train::MemoryCheck check = {.estimated = train::EstimateStepMemory(steps.measured()[0],
                                                                     steps.measured()[1],
                                                                     *options.checked_batch_size)};
  RequireRoom(check.estimated, "--check");
  check.measured = train::MeasureStepMemory(policy, *options.checked_batch_size);
  memory["check"] = {{"estimated", StepJson(check.estimated)},
                     {"measured", StepJson(check.measured)},
                     {"deviation", check.deviation()}};
  return memory;
}

// 4598018 -> "4,598,018"
std::string Grouped(std::int64_t n) {
  const std::string digits = std::to_string(n);
  std::string grouped;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}

// {"modules": [{"name", "depth", "parameters"}], "parameters"}
Json InspectModules(const torch::nn::Module& root, int n_levels) {
  Json modules = Json::array();
  for (const train::ModuleSize& module : train::ModuleSizes(root, n_levels)) {
    modules.push_back(
        {{"name", module.name}, {"depth", module.depth}, {"parameters", module.n_parameters}});
  }
  return {{"modules", modules}, {"parameters", train::NumParameters(root)}};
}

// Adds to a result with modules what the template modules.txt shows.
void AddModuleRows(Json* result) {
  const auto total = (*result)["parameters"].get<std::int64_t>();
  for (Json& module : (*result)["modules"]) {
    const auto n = module["parameters"].get<std::int64_t>();
    module["indented"] = std::string(2 * module["depth"].get<std::size_t>(), ' ') +
                         module["name"].get<std::string>();
    module["grouped"] = Grouped(n);
    module["share"] = static_cast<double>(n) / static_cast<double>(total);
  }
  (*result)["total"] = Grouped(total);
}

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

Json InspectPolicy(const task::Experiment& experiment, const PolicyInspectionOptions& options) {
  const Config& config = experiment.config();
  const auto normalizer = train::NormalizerConfig::FromConfig(config.Sub("normalizer"));
  config.Sub("normalizer").RejectUnread();
  const std::unique_ptr<Policy> policy = experiment.CreatePolicy();
  policy->SetNormalizer(train::NeutralNormalizer(experiment.spec().shape_meta, normalizer));

  const train::StepMemoryModel steps(*policy);
  RequireRoom(steps.At(options.batch_size), "--batch-size");
  Json inspection = {{"policy", config.Sub("policy").Get<std::string>("plugin")},
                     {"task", experiment.name()},
                     {"batch_size", options.batch_size},
                     {"stages", TraceLoss(*policy, options.batch_size)}};
  inspection.update(InspectModules(policy->module(), options.n_levels));
  inspection["memory"] = MemoryJson(*policy, steps, config, options);
  return inspection;
}

std::string PolicyText(Json inspection) {
  AddModuleRows(&inspection);
  for (Json& stage : inspection["stages"]) stage["shape"] = ToString(stage["shape"].get<Shape>());
  Json& memory = inspection["memory"];
  memory["sizes"] = fmt::format("{} and {}", memory["measured"][0]["batch_size"].dump(),
                                memory["measured"][1]["batch_size"].dump());
  return report::Render("policy.txt", inspection);
}

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
