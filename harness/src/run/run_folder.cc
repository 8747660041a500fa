// The formats are those of docs/architecture.md: JSON lines for episodes and log, JSON for the
// rest.
#include "run/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/regular_file.h"
#include "core/sha256.h"
#include "core/shell.h"
#include "run/episode_log.h"
#include "run/run_cost.h"
#include "run/run_files.h"

namespace dp_bench::run {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kMaxRunFileBytes = std::size_t{512} << 20;  // a million episodes
constexpr std::size_t kMaxExtraBytes = std::size_t{1} << 20;      // files that only pages need
constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxCurvePoints = 5'000'000;  // of all curves together

std::string ReadIfPresent(const fs::path& file) {
  return fs::exists(file) ? core::ReadTextFile(file, kMaxRunFileBytes) : "";
}

// The file's text, parsed; none if the file does not exist.
template <class Parse>
auto ReadExtra(const fs::path& file, const Parse& parse)
    -> std::optional<decltype(parse(std::string_view(), std::string()))> {
  if (!fs::exists(file)) return std::nullopt;
  return parse(core::ReadTextFile(file, kMaxExtraBytes), file.string());
}

// Keeps the last value of a key within an epoch: for train_loss the epoch's mean, after a resume
// the newer row.
void ReadLog(RunFolder* folder) {
  const fs::path log = folder->path / kTrainingLogFile;
  if (!fs::exists(log)) return;
  if (fs::is_regular_file(log) && fs::file_size(log) > kMaxLogBytes) {
    folder->notes.push_back(
        fmt::format("{} is larger than 1 GiB: no learning curves", kTrainingLogFile));
    return;
  }
  core::LineReader lines(log, kMaxLogBytes, kMaxLineBytes);
  std::map<std::string, std::map<double, double>> values;  // key -> epoch -> value
  int n_unreadable = 0;
  std::size_t n_points = 0;
  for (std::string line; lines.Next(&line);) {
    const Json row = core::TryParseJson(line);
    const auto epoch = row.is_object() ? row.find("epoch") : row.end();
    if (!row.is_object() || epoch == row.end() || !epoch->is_number()) {
      n_unreadable += line.empty() ? 0 : 1;
      continue;
    }
    for (const auto& [key, value] : row.items()) {
      if (!value.is_number() || key == "epoch") continue;
      std::map<double, double>& curve = values[key];
      n_points += curve.insert_or_assign(epoch->get<double>(), value.get<double>()).second ? 1 : 0;
    }
    if (n_points > kMaxCurvePoints) {
      throw DataError(
          "{} has more than {} values of keys and epochs: this is not the log of a training",
          log.string(), kMaxCurvePoints);
    }
  }
  for (const auto& [key, points] : values) {
    for (const auto& [epoch, value] : points) folder->curves[key].push_back({epoch, value});
  }
  if (n_unreadable > 0) {
    folder->notes.push_back(
        fmt::format("lines of the log that cannot be read and are skipped: {}", n_unreadable));
  }
}

[[noreturn]] void ThrowMixed(const fs::path& folder, const std::string& what) {
  throw DataError(
      "the files in '{}' are not of one run: {}. Put back the files that belong together, continue "
      "the run with --resume if it was resumed and is not finished, or evaluate again in another "
      "--output folder.",
      folder.string(), what);
}

void CheckConfig(const RunFolder& folder, const std::string& run_id) {
  const std::string wanted =
      core::TextAt(core::TryParseJson(folder.manifest), fmt::format("/{}", kConfigHashKey));
  const std::string found = core::Sha256Hex(folder.config);
  if (wanted.empty() || wanted == found) return;
  ThrowMixed(folder.path, fmt::format("manifest.json is of run {}, whose config.json has the "
                                      "SHA-256 {:.16}…; the one there has {:.16}…",
                                      run_id, wanted, found));
}

void CheckEpisodes(const RunFolder& folder, const std::string& run_id,
                   const std::string& episodes) {
  const std::string evaluated = core::TextAt(folder.eval_log, fmt::format("/{}", kRunIdKey));
  if (evaluated != run_id) {
    const auto name = [](const std::string& id) {
      return id.empty() ? "a run without an id" : "run " + id;
    };
    ThrowMixed(folder.path, fmt::format("eval_log.json is of {}, manifest.json of {}",
                                        name(evaluated), name(run_id)));
  }
  const std::string wanted = core::TextAt(folder.eval_log, fmt::format("/{}", kEpisodesHashKey));
  if (wanted.empty() || wanted == core::Sha256Hex(episodes)) return;
  ThrowMixed(folder.path, fmt::format("eval_log.json is about episodes with the SHA-256 {:.16}…; "
                                      "those in episodes.jsonl have {:.16}…",
                                      wanted, core::Sha256Hex(episodes)));
}

// Before runs had ids, episodes.jsonl alone meant a complete result.
std::string WhyUnfinished(const RunFolder& folder, const std::string& run_id) {
  if (folder.manifest.empty()) return "";
  std::string missing;
  if (folder.config.empty()) {
    missing = kConfigFile;
  } else if (!fs::exists(folder.path / kEpisodesFile)) {
    missing = kEpisodesFile;
  } else if (!run_id.empty() && folder.eval_log.is_null()) {
    missing = kEvalLogFile;
  }
  const Json manifest = core::TryParseJson(folder.manifest);
  const bool is_of_run = manifest.is_object() && manifest.contains("plugins");
  if (missing.empty() || !is_of_run) return "";  // a checkpoint has a different kind of manifest
  // the evaluation of a run has a journal if it is being extended
  const bool is_evaluation = manifest.contains("checkpoint") || !JournalsIn(folder.path).empty();
  const std::string path = folder.path.string();
  if (folder.config.empty() && is_evaluation) {
    return fmt::format(
        "the evaluation in '{}' is not finished: it has no {}; start it over with dp_bench eval "
        "--overwrite --output {}",
        path, missing, core::ShellWord(path));
  }
  return fmt::format(
      "the {} in '{}' is not finished: it has no {}; continue with dp_bench {} --resume {}",
      is_evaluation ? "evaluation" : "run", path, missing, is_evaluation ? "eval" : "run",
      core::ShellWord(path));
}

// Checks that the files are of one run. Without a manifest.json there is nothing to check.
void CheckBelonging(RunFolder* folder, const std::string& episodes) {
  if (!folder->manifest.empty()) {
    core::ParseJson(folder->manifest,
                    (folder->path / kManifestFile).string());  // throws if damaged
  }
  const std::string run_id = RunIdOf(folder->manifest);
  folder->unfinished = WhyUnfinished(*folder, run_id);
  if (folder->manifest.empty()) return;
  if (!folder->config.empty()) CheckConfig(*folder, run_id);
  if (folder->eval_log.is_object() && !episodes.empty()) CheckEpisodes(*folder, run_id, episodes);
}

// After an early stop, config and manifest still have the whole seed list.
void NoteSeedsNotRun(RunFolder* folder) {
  const auto n_run = std::ranges::count(folder->episodes, "test", &EpisodeRecord::split);
  if (!folder->seeds || n_run == 0 || n_run >= folder->seeds->report.n) return;
  folder->notes.push_back(
      fmt::format("{} of the {} test seeds of config.json were run: dp_bench gate stops as soon as "
                  "it has a verdict",
                  n_run, folder->seeds->report.n));
}

// Everything except the log.
RunFolder ReadFiles(const fs::path& path) {
  RunFolder folder{.path = path};
  const std::string episodes = ReadIfPresent(path / kEpisodesFile);
  const std::string eval_log = ReadIfPresent(path / kEvalLogFile);
  folder.config = ReadIfPresent(path / kConfigFile);
  folder.manifest = ReadIfPresent(path / kManifestFile);
  folder.episodes = ParseEpisodes(episodes, (path / kEpisodesFile).string());
  if (!eval_log.empty()) {
    folder.eval_log = core::ParseJson(eval_log, (path / kEvalLogFile).string());
  }
  folder.notes = MissingVideos(folder.episodes);
  CheckBelonging(&folder, episodes);
  folder.seeds = SeedUseOf(folder.manifest);
  NoteSeedsNotRun(&folder);
  if (const auto certificate = DeterminismOf(folder.manifest)) {
    folder.notes.push_back(Describe(*certificate));
  }
  return folder;
}

// "kuavo_dualarm, pick_place".
std::string WithTask(const std::string& world, const Json& config) {
  const std::string task = core::TextAt(config, "/env/params/task");
  return world.empty() || task.empty() ? world : world + ", " + task;
}

}  // namespace

fs::path RunFolder::config_file() const { return path / kConfigFile; }

fs::path RunFolder::report_file() const { return path / kReportFile; }

std::optional<core::Cost> RunFolder::ReadCost() const {
  return ReadExtra(path / kCostFile, ParseCost);
}

std::optional<PolicyLatencySummary> RunFolder::ReadLatency() const {
  return ReadExtra(path / kLatencyFile, ParseLatency);
}

std::optional<PerturbationEffects> RunFolder::ReadEffects() const {
  return ReadExtra(path / kEffectsFile, ParseEffects);
}

std::optional<Json> RunFolder::ReadVerification() const {
  return ReadExtra(path / kVerificationFile, [](std::string_view text, const std::string& origin) {
    return core::ParseJson(text, origin);
  });
}

std::optional<fs::path> RunFolder::VideoOf(const EpisodeRecord& record) const {
  return StaysBelow(record.video) ? std::optional(path / record.video) : std::nullopt;
}

std::optional<VideoNotes> RunFolder::ReadNotesOf(const EpisodeRecord& record) const {
  const std::optional<fs::path> video = VideoOf(record);
  if (!video) return std::nullopt;
  const fs::path file = video->lexically_normal().replace_extension(".safetensors");
  return fs::is_regular_file(file) ? std::optional(ReadVideoNotes(file)) : std::nullopt;
}

bool StaysBelow(const std::string& relative_path) {
  const fs::path path = fs::path(relative_path).lexically_normal();
  return !relative_path.empty() && !path.is_absolute() && *path.begin() != "..";
}

RunFolder ReadRunFolder(const fs::path& path) {
  RunFolder folder = ReadFiles(path);
  ReadLog(&folder);
  return folder;
}

void RequireFinished(const RunFolder& folder) {
  if (!folder.unfinished.empty()) throw Error(ErrorCode::kData, folder.unfinished);
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
  const Json config = core::TryParseJson(folder.config);
  return WithTask(core::TextAt(config, "/env/plugin"), config);
}

std::string RunTitle(const RunFolder& folder) {
  const Json config = core::TryParseJson(folder.config);
  const std::string policy = core::TextAt(config, "/policy/plugin");
  // a name of its own says more than an env plugin that has many worlds
  const std::string name = core::TextAt(config, "/name");
  const std::string env = core::TextAt(config, "/env/plugin");
  const bool has_own_name = !name.empty() && !name.starts_with(env);
  const std::string task = WithTask(has_own_name ? name : env, config);
  if (policy.empty() || task.empty()) return fs::absolute(folder.path).filename().string();
  return fmt::format("{} on {}", policy, task);
}

}  // namespace dp_bench::run
