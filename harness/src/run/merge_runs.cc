#include "run/merge_runs.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <future>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "control/env_runner_config.h"
#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/list_some.h"
#include "core/thread_pool.h"
#include "run/episode_log.h"
#include "run/manifest.h"
#include "run/run_contents.h"
#include "run/run_cost.h"
#include "run/run_files.h"

namespace dp_bench::run {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kMaxBytes = std::size_t{1} << 30;
constexpr std::size_t kMaxFileOfHead = std::size_t{16} << 20;
constexpr std::size_t kShownPlaces = 6;

// What two runs must have in common, by place. A run's id covers the same.
Json CommonOf(const std::string& manifest, const std::string& config) {
  const Json json = OutcomePart(core::ParseJson(WithoutRunId(manifest), kManifestFile));
  return Json{{"manifest", json}, {"config", core::ParseJson(config, kConfigFile)}}.flatten();
}

void RequireSameRun(const MergedRun& merged, const fs::path& first, const std::string& manifest,
                    const std::string& config, const fs::path& folder) {
  if (RunIdOf(merged.manifest) == RunIdOf(manifest)) return;
  std::vector<std::string> places;
  for (const Json& change :
       Json::diff(CommonOf(merged.manifest, merged.config), CommonOf(manifest, config))) {
    const Json::json_pointer in_flat(change.at("path").get<std::string>());
    places.push_back(in_flat.empty() ? "" : in_flat.back().substr(1));
  }
  if (places.empty()) return;  // older versions made the id from the certificates too
  throw DataError("'{}' and '{}' are not of one evaluation; they differ in {}", first.string(),
                  folder.string(), core::ListSome(places, kShownPlaces, "more places"));
}

// The names in the first row that has metrics.
std::vector<std::string> MetricNamesIn(const fs::path& file) {
  std::ifstream rows(file);
  for (std::string line; std::getline(rows, line);) {
    const Json row = core::TryParseJson(line);
    if (!row.is_object() || !row.contains("metrics") || row["metrics"].empty()) continue;
    std::vector<std::string> names;
    for (const auto& [name, value] : row["metrics"].items()) names.push_back(name);
    return names;
  }
  return {};
}

// The episodes of a folder: of its result, or of its journals.
struct FolderEpisodes {
  std::vector<EpisodeRecord> records;
  std::vector<std::string> metric_names;  // empty if no episode has metrics
};

FolderEpisodes EpisodesIn(const fs::path& folder) {
  FolderEpisodes found;
  const fs::path result = folder / kEpisodesFile;
  if (fs::exists(result)) {
    found.metric_names = MetricNamesIn(result);
    found.records =
        ParseEpisodes(core::ReadTextFile(result, kMaxBytes), result.string(), found.metric_names);
  }
  for (const fs::path& journal : JournalsIn(folder)) {
    if (found.metric_names.empty()) found.metric_names = MetricNamesIn(journal);
    std::vector<EpisodeRecord> rows =
        EpisodeJournal::ReadEpisodes(journal, found.metric_names, RunIdOf(ReadRunManifest(folder)));
    std::ranges::move(rows, std::back_inserter(found.records));
  }
  return found;
}

double SilentSeconds(const fs::path& folder) {
  fs::file_time_type latest = fs::last_write_time(folder / kManifestFile);
  std::vector<fs::path> files = JournalsIn(folder);
  files.push_back(folder / kEpisodesFile);
  for (const fs::path& file : files) {
    std::error_code gone;
    const fs::file_time_type written = fs::last_write_time(file, gone);
    if (!gone) latest = std::max(latest, written);
  }
  const std::chrono::duration<double> silent = fs::file_time_type::clock::now() - latest;
  return std::max(0.0, silent.count());
}

[[noreturn]] void ThrowDifferent(const EpisodeRecord& record, const fs::path& a,
                                 const fs::path& b) {
  throw DataError(
      "episode {} ({} seed {}) has different outcomes in '{}' and '{}': it is not a function of "
      "its seed, or one of the files was changed. dp_bench diff shows the first difference",
      record.episode, record.split, record.seed, a.string(), b.string());
}

void CopyVideos(const MergedRun& merged, const fs::path& folder) {
  for (const MergedPart& part : merged.parts) {
    const fs::path from = part.folder / kMediaFolder;
    if (!fs::is_directory(from) ||
        fs::weakly_canonical(part.folder) == fs::weakly_canonical(folder))
      continue;
    fs::create_directories(folder / kMediaFolder);
    for (const fs::path& file : core::EntriesOf(from)) {
      if (core::IsTemporaryName(file.filename().string())) continue;
      fs::copy(file, folder / kMediaFolder / file.filename(),
               fs::copy_options::overwrite_existing | fs::copy_options::recursive);
    }
  }
}

void WriteCosts(const MergedRun& merged, const fs::path& folder) {
  std::vector<core::Cost> costs;
  for (const MergedPart& part : merged.parts) {
    const fs::path file = part.folder / kCostFile;
    if (part.is_output || !fs::exists(file)) continue;
    costs.push_back(ParseCost(core::ReadTextFile(file, kMaxFileOfHead), file.string()));
  }
  SetShardCosts(folder, costs);
}

void CopyLatency(const MergedRun& merged, const fs::path& folder) {
  for (const MergedPart& part : merged.parts) {
    const fs::path file = part.folder / kLatencyFile;
    if (!fs::exists(file)) continue;
    core::WriteFileAtomically(folder / kLatencyFile, core::ReadTextFile(file, kMaxFileOfHead));
    return;
  }
}

// Adds the episodes of one folder after the other.
class RunMerger {
 public:
  explicit RunMerger(const fs::path& output) : output_(fs::weakly_canonical(output)) {}

  // Checks that the folder is of the same run as the others. False if it has only begun.
  bool AddHead(const fs::path& folder) {
    const std::string manifest = ReadRunManifest(folder);
    if (!fs::exists(folder / kConfigFile)) return false;
    const std::string config = core::ReadTextFile(folder / kConfigFile, kMaxFileOfHead);
    if (merged_.parts.empty()) {
      TakeHead(folder, manifest, config);
    } else {
      RequireSameRun(merged_, merged_.parts.front().folder, manifest, config, folder);
      TakeWorseCertificates(manifest);
    }
    MergedPart part = {.folder = folder, .shard = ShardOf(folder)};
    part.n_wanted = CountOf(part.shard.value_or(SeedShard{}), merged_.n_wanted);
    part.silent_s = SilentSeconds(folder);
    part.is_output = fs::weakly_canonical(folder) == output_;
    merged_.parts.push_back(std::move(part));
    return true;
  }

  void AddEpisodes(std::size_t part, FolderEpisodes found) {
    if (merged_.result.metric_names.empty()) {
      merged_.result.metric_names = std::move(found.metric_names);
    }
    std::vector<int> own;
    for (EpisodeRecord& record : found.records) {
      own.push_back(record.episode);
      AddEpisode(std::move(record), part);
    }
    std::ranges::sort(own);
    own.erase(std::unique(own.begin(), own.end()), own.end());
    merged_.parts[part].n_episodes = static_cast<int>(own.size());
  }

  MergedRun Take() {
    std::ranges::sort(merged_.result.records, {}, &EpisodeRecord::episode);
    return std::move(merged_);
  }

 private:
  // Where an episode is from, so that a message can name both folders.
  struct Origin {
    std::size_t record = 0;  // in the result
    std::size_t part = 0;
  };

  void TakeHead(const fs::path& folder, const std::string& manifest, const std::string& config) {
    merged_.manifest = manifest;
    merged_.config = config;
    const auto runner = control::EnvRunnerConfig::FromConfig(
        Config::FromJson(config, (folder / kConfigFile).string()).Sub("env_runner"));
    merged_.n_wanted = runner.n_train + runner.n_test;
    origins_.reserve(static_cast<std::size_t>(merged_.n_wanted));
  }

  // Each shard has its own. One that found a difference is enough.
  void TakeWorseCertificates(const std::string& manifest) {
    const auto has_difference = [](const std::string& text) {
      const auto certificate = DeterminismOf(text);
      return certificate && certificate->difference;
    };
    if (has_difference(merged_.manifest) || !has_difference(manifest)) return;
    Json merged = Json::parse(merged_.manifest);
    const Json other = Json::parse(manifest);
    for (const char* key : {kDeterminismKey, kPolicyDeterminismKey}) {
      if (other.contains(key)) merged[key] = other[key];
    }
    merged_.manifest = merged.dump(2) + "\n";
  }

  void AddEpisode(EpisodeRecord record, std::size_t part) {
    std::vector<EpisodeRecord>& records = merged_.result.records;
    const auto [known, is_new] = origins_.try_emplace(record.episode, Origin{records.size(), part});
    if (is_new) {
      records.push_back(std::move(record));
      return;
    }
    const EpisodeRecord& other = records[known->second.record];
    if (other.trace_hash != record.trace_hash || other.score != record.score) {
      ThrowDifferent(record, merged_.parts[known->second.part].folder, merged_.parts[part].folder);
    }
    const bool is_of_output = merged_.parts[known->second.part].is_output;
    known->second.part = part;
    if (!is_of_output && !merged_.parts[part].is_output) ++merged_.n_twice;
  }

  fs::path output_;
  MergedRun merged_;
  std::unordered_map<int, Origin> origins_;  // by episode
};

}  // namespace

bool HasManifest(const fs::path& folder) { return fs::exists(folder / kManifestFile); }

std::vector<fs::path> FindParts(std::span<const fs::path> paths) {
  std::vector<fs::path> parts;
  for (const fs::path& path : paths) {
    std::vector<fs::path> below;
    if (fs::is_directory(path)) {
      for (const fs::path& entry : core::EntriesOf(path)) {
        if (ShardOf(entry) && HasManifest(entry)) below.push_back(entry);
      }
    }
    if (HasManifest(path)) below.push_back(path);
    if (below.empty()) {
      throw UsageError(
          "'{}' has no evaluation and no shards of one: expected the folder of an evaluation, of a "
          "shard, or the --output of all shards",
          path.string());
    }
    std::ranges::move(below, std::back_inserter(parts));
  }
  std::ranges::sort(parts, [](const fs::path& a, const fs::path& b) {
    const SeedShard of_a = ShardOf(a).value_or(SeedShard{});
    const SeedShard of_b = ShardOf(b).value_or(SeedShard{});
    return std::tuple(of_a.n, of_a.index, a) < std::tuple(of_b.n, of_b.index, b);
  });
  const auto is_same = [](const fs::path& a, const fs::path& b) {
    return fs::weakly_canonical(a) == fs::weakly_canonical(b);
  };
  parts.erase(std::unique(parts.begin(), parts.end(), is_same), parts.end());
  return parts;
}

MergedRun MergeRuns(std::span<const fs::path> folders, const fs::path& output) {
  RunMerger merger(output);
  std::vector<fs::path> begun;
  for (const fs::path& folder : folders) {
    if (merger.AddHead(folder)) begun.push_back(folder);
  }
  // nearly all of the time is in reading the rows
  core::ThreadPool pool(0);
  std::vector<std::future<FolderEpisodes>> read;
  for (const fs::path& folder : begun) {
    read.push_back(core::RunOn(pool, [folder] { return EpisodesIn(folder); }));
  }
  for (std::size_t part = 0; part < read.size(); ++part) {
    merger.AddEpisodes(part, read[part].get());
  }
  return merger.Take();
}

RunFolder AsRunFolder(MergedRun merged, const fs::path& folder) {
  const std::optional<SeedUse> seeds = SeedUseOf(merged.manifest);
  RunFolder run{.path = folder};
  run.eval_log = SummaryLog(merged.result, seeds ? seeds->n_shared() : 0);
  run.episodes = std::move(merged.result.records);
  run.config = std::move(merged.config);
  run.manifest = std::move(merged.manifest);
  run.seeds = seeds;
  run.notes = MissingVideos(run.episodes);
  if (const auto certificate = DeterminismOf(run.manifest)) {
    run.notes.push_back(Describe(*certificate));
  }
  return run;
}

void WriteMerged(const MergedRun& merged, const fs::path& folder) {
  core::CreateFolders(folder);
  if (HasManifest(folder) && RunIdOf(ReadRunManifest(folder)) != RunIdOf(merged.manifest)) {
    RequireNoRun(folder);  // throws
  }
  WriteRunHead(folder, merged.manifest, merged.config);
  CopyVideos(merged, folder);
  WriteCosts(merged, folder);
  if (!merged.is_complete()) {
    std::string rows = Json{{kRunIdKey, RunIdOf(merged.manifest)}}.dump() + "\n";
    for (const EpisodeRecord& record : merged.result.records) {
      rows += EpisodeRow(record, merged.result.metric_names) + "\n";
    }
    core::WriteFileAtomically(folder / kJournalFile, rows);
    return;
  }
  CopyLatency(merged, folder);
  const std::optional<SeedUse> seeds = SeedUseOf(merged.manifest);
  WriteEpisodeLog(folder, merged.result, seeds ? seeds->n_shared() : 0, RunIdOf(merged.manifest));
  for (const fs::path& journal : JournalsIn(folder)) fs::remove(journal);
}

}  // namespace dp_bench::run
