#include "run/cost_prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/json.h"
#include "core/output_file.h"
#include "core/progress.h"

namespace dp_bench::run {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxPredictionBytes = std::size_t{1} << 20;

void VisitPrediction(const core::JsonFields& fields, CostPrediction* c) {
  fields("wall_s", &c->wall_s);
  fields("cpu_s", &c->cpu_s);
  fields("peak_memory_bytes", &c->peak_bytes);
  fields("disk_bytes", &c->disk_bytes);
  fields("energy_j", &c->energy_j);
  fields("tried", &c->tried);
}

}  // namespace

CostPrediction PredictionFrom(const core::Cost& trial, double factor, std::string tried) {
  CostPrediction prediction = {.wall_s = factor * trial.wall_s,
                               .cpu_s = factor * trial.cpu_s,
                               .peak_bytes = trial.peak_bytes,
                               .tried = std::move(tried)};
  if (trial.energy_j) prediction.energy_j = factor * *trial.energy_j;
  return prediction;
}

CostPrediction Repeated(CostPrediction once, std::size_t n) {
  const auto factor = static_cast<double>(n);
  once.wall_s *= factor;
  once.cpu_s *= factor;
  once.disk_bytes *= factor;
  if (once.energy_j) *once.energy_j *= factor;
  return once;
}

CostPrediction Sum(const CostPredictions& parts) {
  CostPrediction sum = {.energy_j = 0.0};
  for (const auto& [name, part] : parts) {
    sum.wall_s += part.wall_s;
    sum.cpu_s += part.cpu_s;
    sum.peak_bytes = std::max(sum.peak_bytes, part.peak_bytes);
    sum.disk_bytes += part.disk_bytes;
    sum.energy_j = sum.energy_j && part.energy_j ? std::optional(*sum.energy_j + *part.energy_j)
                                                 : std::nullopt;
    sum.tried += (sum.tried.empty() ? "" : " and ") + part.tried;
  }
  return sum;
}

std::string Describe(const CostPrediction& prediction) {
  return fmt::format(
      "about {}, processor time {}, {:.0f} MiB of memory and {:.1f} MiB on disk without videos{}",
      core::FormatDuration(prediction.wall_s), core::FormatDuration(prediction.cpu_s),
      static_cast<double>(prediction.peak_bytes) / (1 << 20), prediction.disk_bytes / (1 << 20),
      prediction.energy_j
          ? fmt::format(", {:.3g} kJ of processors and GPUs", 1e-3 * *prediction.energy_j)
          : "");
}

void WritePredictions(const std::filesystem::path& file, const CostPredictions& parts) {
  Json json = Json::object();
  for (const auto& [name, part] : parts) json[name] = core::ToFields(part, VisitPrediction);
  core::WriteOutput(file, json.dump(2) + "\n");
}

CostPredictions ReadPredictions(const std::filesystem::path& file) {
  const Json json = core::ReadJsonFile(file, kMaxPredictionBytes);
  const std::string origin = file.string();
  CostPredictions parts;
  for (const auto& [name, part] : json.items()) {
    parts[name] = core::FromFields<CostPrediction>(core::JsonView(part, origin), VisitPrediction);
  }
  return parts;
}

}  // namespace dp_bench::run
