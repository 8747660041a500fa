#include "run/run_checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/parse_number.h"
#include "run/checkpoint.h"
#include "run/run_files.h"

namespace dp_bench::run {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxHeadBytes = std::size_t{64} << 20;

// null if the file is missing or is not JSON.
nlohmann::json ReadJsonHead(const fs::path& file) {
  if (!fs::is_regular_file(file)) return nullptr;
  return core::TryParseJson(core::ReadTextFile(file, kMaxHeadBytes));
}

// The earliest epoch first.
std::vector<fs::path> CheckpointsOfEpochs(const fs::path& checkpoints) {
  std::vector<fs::path> paths = CheckpointStore(checkpoints).OfEpochs();
  std::erase_if(paths, [](const fs::path& path) { return !IsCheckpointFolder(path); });
  std::ranges::reverse(paths);
  return paths;
}

struct Ranking {
  std::string key;  // as in folder names
  bool is_max = true;
};

Ranking RankingOf(const fs::path& checkpoints) {
  const nlohmann::json config = ReadJsonHead(checkpoints.parent_path() / kConfigFile);
  Ranking ranking = {.key = core::TextAt(config, "/checkpoint/topk/monitor_key"),
                     .is_max = core::TextAt(config, "/checkpoint/topk/mode") != "min"};
  if (ranking.key.empty()) ranking.key = "test_mean_score";
  std::ranges::replace(ranking.key, '/', '_');
  return ranking;
}

// The metric of "epoch=0100-test_mean_score=0.871", whose state has all of its digits; none if the
// name does not have this metric.
std::optional<double> MetricOf(const fs::path& checkpoint, const std::string& key) {
  const std::string name = checkpoint.filename().string();
  const std::string mark = "-" + key + "=";
  const std::size_t found = name.find(mark);
  if (found == std::string::npos) return std::nullopt;
  const nlohmann::json ranked = core::ValueAt(ReadJsonHead(checkpoint / kStateFile), "/topk");
  const auto exact = ranked.find(name);
  if (exact != ranked.end() && exact->is_number()) return exact->get<double>();
  const std::string text = name.substr(found + mark.size());
  const auto value = core::ParseNumber<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

// If several are best, the latest of them.
std::optional<ChosenCheckpoint> BestIn(const fs::path& checkpoints) {
  const Ranking ranking = RankingOf(checkpoints);
  std::optional<double> best;
  ChosenCheckpoint chosen;
  int n_ranked = 0;
  for (const fs::path& path : CheckpointsOfEpochs(checkpoints)) {
    const auto value = MetricOf(path, ranking.key);
    if (!value) continue;
    ++n_ranked;
    if (best && (ranking.is_max ? *value < *best : *value > *best)) continue;
    best = value;
    chosen.folder = path;
  }
  if (!best) return std::nullopt;
  chosen.reason = fmt::format("the best of {} by {}", n_ranked, ranking.key);
  return chosen;
}

std::optional<ChosenCheckpoint> LatestIn(const fs::path& checkpoints) {
  const fs::path latest = checkpoints / kLatest;
  if (IsCheckpointFolder(latest)) return ChosenCheckpoint{latest, "the latest of the training"};
  const std::vector<fs::path> of_epochs = CheckpointsOfEpochs(checkpoints);
  if (of_epochs.empty()) return std::nullopt;
  return ChosenCheckpoint{of_epochs.back(), "the latest that the training keeps"};
}

[[noreturn]] void ThrowNoCheckpoint(const fs::path& path) {
  std::vector<std::string> seeds;
  for (const fs::path& entry : core::EntriesOf(path)) {
    const bool is_seed = entry.filename().string().starts_with("seed_");
    if (is_seed && fs::is_directory(entry / kCheckpointsFolder)) seeds.push_back(entry.string());
  }
  if (!seeds.empty()) {
    throw UsageError("'{}' has trainings of several seeds; give one of them: {}", path.string(),
                     fmt::join(seeds, ", "));
  }
  throw CheckpointError(
      "'{}' is neither a checkpoint (manifest.json and *.safetensors) nor a run folder with "
      "checkpoints; expected a folder such as RUN, RUN/checkpoints/latest or "
      "models/pusht_unet_hybrid",
      path.string());
}

}  // namespace

bool IsCheckpointFolder(const fs::path& folder) {
  if (fs::exists(folder / kEpisodesFile) || !fs::exists(folder / kManifestFile)) return false;
  return std::ranges::any_of(core::EntriesOf(folder), [](const fs::path& path) {
    return path.extension() == ".safetensors";
  });
}

ChosenCheckpoint FindCheckpoint(const fs::path& path, CheckpointOrder order) {
  if (IsCheckpointFolder(path)) return {path, ""};
  const bool is_given = fs::absolute(path).lexically_normal().filename() == kCheckpointsFolder;
  const fs::path checkpoints = is_given ? fs::absolute(path) : path / kCheckpointsFolder;
  if (fs::is_directory(checkpoints)) {
    const bool is_best_first = order == CheckpointOrder::kBestFirst;
    for (const bool takes_best : {is_best_first, !is_best_first}) {
      const auto chosen = takes_best ? BestIn(checkpoints) : LatestIn(checkpoints);
      if (chosen) return *chosen;
    }
  }
  const std::string evaluated =
      core::TextAt(ReadJsonHead(path / kManifestFile), "/checkpoint/folder");
  if (evaluated.empty()) ThrowNoCheckpoint(path);
  return {evaluated, "the one that the evaluation in " + path.string() + " rolled out"};
}

std::optional<CheckpointChoice> EvaluatedCheckpoint(const std::string& manifest) {
  const nlohmann::json json = core::TryParseJson(manifest);
  const core::JsonView view(json, kManifestFile);
  if (json.is_object() && json.contains("checkpoint") && json["checkpoint"].is_null()) {
    return CheckpointChoice{};
  }
  if (!view.Has("checkpoint")) return std::nullopt;
  const core::JsonView origin = view.At("checkpoint");
  return CheckpointChoice{origin.Get<std::string>("folder"), origin.Get<std::string>("weights")};
}

fs::path FindRunOf(const fs::path& path) {
  const bool is_checkpoint = IsCheckpointFolder(path);
  for (fs::path place : {fs::absolute(path).lexically_normal(), fs::weakly_canonical(path)}) {
    if (!place.has_filename()) place = place.parent_path();
    const fs::path checkpoints = is_checkpoint ? place.parent_path() : place;
    if (checkpoints.filename() == kCheckpointsFolder) return checkpoints.parent_path();
  }
  return path;
}

}  // namespace dp_bench::run
