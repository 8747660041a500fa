// The formats are those of docs/architecture.md: JSON lines for episodes and log, JSON for the
// rest.
#include "report/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <string_view>

#include "core/atomic_file.h"
#include "dp_bench/error.h"
#include "rollout/episode_log.h"
#include "rollout/seed_use.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kMaxRunFileBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;

std::string ReadIfPresent(const fs::path& file) {
  return fs::exists(file) ? ReadTextFile(file, kMaxRunFileBytes) : "";
}

Json ParseFile(const fs::path& file, const std::string& text) {
  try {
    return text.empty() ? Json() : Json::parse(text);
  } catch (const Json::exception& fault) {
    throw Error(ErrorCode::kData, fmt::format("{}: {}", file.string(), fault.what()));
  }
}

// The last value of a key within an epoch counts: for train_loss that is the epoch's mean, and
// after a resume the newer of two rows.
void ReadLog(const fs::path& file, RunFolder* folder) {
  if (!fs::exists(file)) return;
  std::ifstream stream(file, std::ios::binary);
  std::map<std::string, std::map<double, double>> values;  // key -> epoch -> value
  int n_unreadable = 0;
  for (std::string line; std::getline(stream, line);) {
    const Json row = line.size() > kMaxLineBytes ? Json() : Json::parse(line, nullptr, false);
    const auto epoch = row.is_object() ? row.find("epoch") : row.end();
    if (!row.is_object() || epoch == row.end() || !epoch->is_number()) {
      n_unreadable += line.empty() ? 0 : 1;
      continue;
    }
    for (const auto& [key, value] : row.items()) {
      if (!value.is_number() || key == "epoch") continue;
      values[key][epoch->get<double>()] = value.get<double>();
    }
  }
  for (const auto& [key, points] : values) {
    for (const auto& [epoch, value] : points) folder->curves[key].push_back({epoch, value});
  }
  if (n_unreadable > 0) {
    folder->notes.push_back(
        fmt::format("{} of the log's lines cannot be read and are left out", n_unreadable));
  }
}

// An evaluation that ended early keeps a config and a manifest with the whole seed list.
void NoteSeedsNotRun(RunFolder* folder) {
  const std::optional<SeedUse> seeds = SeedUseOf(folder->manifest);
  const auto n_run = std::ranges::count(folder->episodes, "test", &EpisodeRecord::split);
  if (!seeds || n_run == 0 || n_run >= seeds->report.n) return;
  folder->notes.push_back(
      fmt::format("{} of the {} test seeds of config.json were run: dp_bench gate stops as soon as "
                  "its verdict is there",
                  n_run, seeds->report.n));
}

// The text at a place of config.json; empty when there is none.
std::string ConfigText(const RunFolder& folder, const char* place) {
  const Json config = Json::parse(folder.config, nullptr, /*allow_exceptions=*/false);
  const Json::json_pointer pointer(place);
  const bool is_text =
      config.is_object() && config.contains(pointer) && config[pointer].is_string();
  return is_text ? config[pointer].get<std::string>() : std::string();
}

}  // namespace

RunFolder ReadRunFolder(const fs::path& path) {
  RunFolder folder{.path = path};
  const fs::path episodes = path / "episodes.jsonl";
  folder.episodes = ParseEpisodes(ReadIfPresent(episodes), episodes.string());
  folder.eval_log = ParseFile(path / "eval_log.json", ReadIfPresent(path / "eval_log.json"));
  for (const EpisodeRecord& record : folder.episodes) {
    if (record.video_error.empty()) continue;
    folder.notes.push_back(
        fmt::format("{} seed {} has no video: {}", record.split, record.seed, record.video_error));
  }
  ReadLog(path / "logs.json.txt", &folder);
  folder.config = ReadIfPresent(path / "config.json");
  folder.manifest = ReadIfPresent(path / "manifest.json");
  NoteSeedsNotRun(&folder);
  return folder;
}

std::vector<std::string> SplitsOf(const RunFolder& folder) {
  std::vector<std::string> splits;
  for (const std::string split : {"test", "train"}) {
    if (std::ranges::find(folder.episodes, split, &EpisodeRecord::split) != folder.episodes.end()) {
      splits.push_back(split);
    }
  }
  return splits;
}

std::string TaskTitle(const RunFolder& folder) {
  const std::string env = ConfigText(folder, "/env/plugin");
  const std::string task = ConfigText(folder, "/env/params/task");
  return env.empty() || task.empty() ? env : env + ", " + task;
}

std::string RunTitle(const RunFolder& folder) {
  const std::string policy = ConfigText(folder, "/policy/plugin");
  const std::string task = TaskTitle(folder);
  if (policy.empty() || task.empty())
    return std::filesystem::absolute(folder.path).filename().string();
  return fmt::format("{} on {}", policy, task);
}

}  // namespace dp_bench
