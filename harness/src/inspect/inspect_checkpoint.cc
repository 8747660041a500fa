// See inspect_checkpoint.h.
#include "inspect/inspect_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "core/console.h"
#include "core/json.h"
#include "inspect/module_table.h"
#include "policy/normalize_mode.h"
#include "run/create_from_checkpoint.h"

namespace dp_bench::inspect {
namespace {

template <class T>
NonFiniteTensor CountNonFinite(const std::string& name, std::span<const T> values) {
  NonFiniteTensor tensor = {.name = name, .n_values = static_cast<std::int64_t>(values.size())};
  for (const T value : values) {
    tensor.n_nan += std::isnan(value) ? 1 : 0;
    tensor.n_inf += std::isinf(value) ? 1 : 0;
  }
  return tensor;
}

NonFiniteTensor CountNonFinite(const std::string& name, const Array& array) {
  if (array.dtype() == DType::kFloat32) return CountNonFinite(name, array.as<float>());
  if (array.dtype() == DType::kFloat64) return CountNonFinite(name, array.as<double>());
  return {.name = name, .n_values = array.size()};
}

CheckpointFile InspectFile(const run::Checkpoint& checkpoint, std::string_view name) {
  CheckpointFile file = {.name = std::string(name)};
  for (const auto& [tensor, array] : checkpoint.ReadTensors(name)) {
    ++file.n_tensors;
    file.n_bytes += static_cast<std::int64_t>(array.byte_size());
    const NonFiniteTensor counted = CountNonFinite(tensor, array);
    if (counted.n_nan + counted.n_inf > 0) file.non_finite.push_back(counted);
  }
  return file;
}

// Lists each tensor: the first affected layers show where the fault began.
std::string NonFiniteText(const std::vector<CheckpointFile>& files) {
  std::string text;
  for (const CheckpointFile& file : files) {
    for (const NonFiniteTensor& tensor : file.non_finite) {
      text += fmt::format("NOT FINITE: {}: {} has {} NaN and {} Inf among its {} values\n",
                          file.name, tensor.name, tensor.n_nan, tensor.n_inf, tensor.n_values);
    }
  }
  if (text.empty()) return "";
  return text + "This checkpoint is unusable: use an earlier one, and run dp_bench diagnose.\n\n";
}

nlohmann::json NonFiniteJson(const CheckpointFile& file) {
  nlohmann::json list = nlohmann::json::array();
  for (const NonFiniteTensor& tensor : file.non_finite) {
    list.push_back({{"name", tensor.name},
                    {"nan", tensor.n_nan},
                    {"inf", tensor.n_inf},
                    {"values", tensor.n_values}});
  }
  return list;
}

std::string NormalizerTable(const Normalizer& normalizer) {
  std::string table =
      fmt::format("{:<24} {:<16} {:>5} {:>12}\n", "normalizer", "mode", "dims", "no range");
  for (const auto& [key, field] : normalizer.fields()) {
    table += fmt::format("{:<24} {:<16} {:>5} {:>12}\n", key, policy::NameOf(field.mode),
                         field.scale.numel(), field.zero_range_dims.size());
  }
  return table;
}

nlohmann::json NormalizerJson(const Normalizer& normalizer) {
  nlohmann::json json;
  for (const auto& [key, field] : normalizer.fields()) {
    json[key] = {{"mode", policy::NameOf(field.mode)},
                 {"min", field.stats.min},
                 {"max", field.stats.max},
                 {"mean", field.stats.mean},
                 {"std", field.stats.std},
                 {"zero_range_dims", field.zero_range_dims}};
  }
  return json;
}

}  // namespace

bool CheckpointInspection::has_non_finite() const {
  return std::ranges::any_of(files,
                             [](const CheckpointFile& file) { return !file.non_finite.empty(); });
}

CheckpointInspection InspectCheckpoint(const std::filesystem::path& folder,
                                       plugin::PluginCatalogue& catalogue, int n_levels) {
  const run::Checkpoint checkpoint = run::Checkpoint::Open(folder);
  const Config config = Config::FromJson(checkpoint.config(), (folder / "config.json").string());
  const run::Weights weights = run::EvaluatedWeights(checkpoint);
  const auto policy = run::CreateFromCheckpoint(checkpoint, config, catalogue, weights);
  CheckpointInspection inspection = {
      .folder = folder,
      .policy = config.Sub("policy").Get<std::string>("plugin"),
      .task = core::Printable(config.Get<std::string>("name", "")),
      .state = core::ParseJson(checkpoint.state(), (folder / "state.json").string(),
                               ErrorCode::kCheckpoint),
      .normalizer = run::NormalizerOf(checkpoint),
      .modules = train::ModuleSizes(policy->module(), n_levels),
      .n_parameters = train::NumParameters(policy->module())};
  for (const std::string_view file : {run::kModelFile, run::kEmaFile, run::kNormalizerFile,
                                      run::kOptimizerFile, run::kGradientsFile}) {
    if (checkpoint.Has(file)) inspection.files.push_back(InspectFile(checkpoint, file));
  }
  return inspection;
}

std::string ToText(const CheckpointInspection& inspection) {
  std::string text = fmt::format("{}: policy {} for {}; all checksums match\n\n",
                                 inspection.folder.string(), inspection.policy, inspection.task);
  text += NonFiniteText(inspection.files);
  for (const auto& [key, value] : inspection.state.items()) {
    text += fmt::format("{:<24} {}\n", key, value.dump());
  }
  text += fmt::format("\n{:<24} {:>8} {:>10}\n", "file", "tensors", "MiB");
  for (const CheckpointFile& file : inspection.files) {
    text += fmt::format("{:<24} {:>8} {:>10.2f}\n", file.name, file.n_tensors,
                        static_cast<double>(file.n_bytes) / (1 << 20));
  }
  return text + "\n" + NormalizerTable(inspection.normalizer) + "\n" +
         ModuleTable(inspection.modules, inspection.n_parameters);
}

nlohmann::json ToJson(const CheckpointInspection& inspection) {
  nlohmann::json files = nlohmann::json::array();
  for (const CheckpointFile& file : inspection.files) {
    files.push_back({{"name", file.name},
                     {"n_tensors", file.n_tensors},
                     {"bytes", file.n_bytes},
                     {"non_finite", NonFiniteJson(file)}});
  }
  return {{"checkpoint", inspection.folder.string()},
          {"policy", inspection.policy},
          {"task", inspection.task},
          {"state", inspection.state},
          {"files", std::move(files)},
          {"normalizer", NormalizerJson(inspection.normalizer)},
          {"modules", ModuleList(inspection.modules)},
          {"parameters", inspection.n_parameters}};
}

}  // namespace dp_bench::inspect
