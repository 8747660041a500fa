// See inspect_checkpoint.h.
#include "app/inspect/inspect_checkpoint.h"

#include <fmt/format.h>

#include "app/inspect/module_table.h"
#include "checkpoint/create_from_checkpoint.h"
#include "normalize/normalize_mode.h"

namespace dp_bench {
namespace {

CheckpointFile InspectFile(const Checkpoint& checkpoint, std::string_view name) {
  CheckpointFile file = {.name = std::string(name)};
  for (const auto& [tensor, array] : checkpoint.ReadTensors(name)) {
    ++file.n_tensors;
    file.n_bytes += static_cast<std::int64_t>(array.byte_size());
  }
  return file;
}

std::string NormalizerTable(const Normalizer& normalizer) {
  std::string table =
      fmt::format("{:<24} {:<16} {:>5} {:>12}\n", "normalizer", "mode", "dims", "no range");
  for (const auto& [key, field] : normalizer.fields()) {
    table += fmt::format("{:<24} {:<16} {:>5} {:>12}\n", key, NameOf(field.mode),
                         field.scale.numel(), field.zero_range_dims.size());
  }
  return table;
}

nlohmann::json NormalizerJson(const Normalizer& normalizer) {
  nlohmann::json json;
  for (const auto& [key, field] : normalizer.fields()) {
    json[key] = {{"mode", NameOf(field.mode)}, {"min", field.stats.min},
                 {"max", field.stats.max},     {"mean", field.stats.mean},
                 {"std", field.stats.std},     {"zero_range_dims", field.zero_range_dims}};
  }
  return json;
}

}  // namespace

CheckpointInspection InspectCheckpoint(const std::filesystem::path& folder,
                                       PluginCatalogue& catalogue, int n_levels) {
  const Checkpoint checkpoint = Checkpoint::Open(folder);
  const Config config = Config::FromJson(checkpoint.config(), (folder / "config.json").string());
  const Weights weights = checkpoint.Has(kEmaFile) ? Weights::kEma : Weights::kModel;
  const auto policy = CreateFromCheckpoint(checkpoint, config, catalogue, weights);
  CheckpointInspection inspection = {
      .folder = folder,
      .policy = config.Sub("policy").Get<std::string>("plugin"),
      .task = config.Get<std::string>("name", ""),
      .state = nlohmann::json::parse(checkpoint.state()),
      .normalizer = Normalizer::FromStateDict(ToTensors(checkpoint.ReadTensors(kNormalizerFile))),
      .modules = ModuleSizes(policy->module(), n_levels),
      .n_parameters = NumParameters(policy->module())};
  for (const std::string_view file :
       {kModelFile, kEmaFile, kNormalizerFile, kOptimizerFile, kGradientsFile}) {
    if (checkpoint.Has(file)) inspection.files.push_back(InspectFile(checkpoint, file));
  }
  return inspection;
}

std::string ToText(const CheckpointInspection& inspection) {
  std::string text = fmt::format("{}: policy {} for {}; every file has its checksum\n\n",
                                 inspection.folder.string(), inspection.policy, inspection.task);
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
    files.push_back({{"name", file.name}, {"n_tensors", file.n_tensors}, {"bytes", file.n_bytes}});
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

}  // namespace dp_bench
