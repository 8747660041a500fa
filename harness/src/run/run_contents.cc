#include "run/run_contents.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <regex>
#include <string_view>
#include <system_error>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/list_some.h"
#include "core/shell.h"
#include "core/system_error.h"
#include "run/episode_log.h"
#include "run/manifest.h"
#include "run/plan_record.h"
#include "run/run_files.h"

namespace dp_bench::run {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kShownNames = 4;

// In order of removal.
constexpr std::array kEvaluationFiles = {kEpisodesFile, kEvalLogFile, kLatencyFile, kReportFile,
                                         kEffectsFile,  kDelaysFile,  kShardFile};
constexpr std::array<std::string_view, 4> kEpisodeFolders = {kMediaFolder, "traces", kPlansFolder,
                                                             kRecordingFolder};

constexpr std::array<std::string_view, 7> kTrainingNames = {
    kCheckpointsFolder, kTrainingLogFile, "snapshots", "tensorboard",
    "rollouts",         kMultiRunFile,    kStateFile};

// The folder of a point of a grid of delays: "naive_delay_2", "rtc_latency_100_execute_8", and of
// older versions "latency_100".
bool IsGridPoint(const std::string& name) {
  static const std::regex kName(
      "(latency_|[a-z0-9_]+_(delay|latency)_)[0-9][0-9.e+-]*(_execute_[0-9]+)?");
  return std::regex_match(name, kName);
}

// Names of videos, traces, plans and recordings, "test_100003.mp4", "train_0.safetensors" and
// "plan_000012.safetensors", including unfinished ones.
bool IsOfEpisode(const std::string& name) {
  if (core::IsTemporaryName(name) || PlanRecord::Has(name)) return true;
  if (name == kRecordingOptionsFile) return true;
  const bool is_split = name.starts_with("test_") || name.starts_with("train_");
  return is_split && (name.ends_with(".mp4") || name.ends_with(".safetensors"));
}

bool HasEpisodeFiles(const fs::path& folder) {
  if (!fs::is_directory(folder)) return false;
  return std::ranges::any_of(core::EntriesOf(folder), [](const fs::path& path) {
    return IsOfEpisode(path.filename().string());
  });
}

// Whether a run has a file of this path in its folder.
bool IsOfRun(const fs::path& path) {
  const std::string first = path.begin()->string();
  const bool is_of_episodes = std::ranges::find(kEpisodeFolders, first) != kEpisodeFolders.end();
  if (is_of_episodes) return IsOfEpisode(path.filename().string());
  return first == kConfigFile || first == kManifestFile || first == kArmsFolder ||
         first.ends_with(".safetensors") || IsGridPoint(first) ||
         first.starts_with(kJournalPrefix) ||
         std::ranges::find(kEvaluationFiles, first) != kEvaluationFiles.end() ||
         std::ranges::find(kTrainingNames, first) != kTrainingNames.end();
}

// The run folders of its perturbation arms and delays.
std::vector<fs::path> EvaluationsBelow(const fs::path& folder) {
  std::vector<fs::path> below;
  const bool is_grid = fs::exists(folder / kDelaysFile);
  for (const fs::path& entry : core::EntriesOf(folder)) {
    if (!fs::is_directory(entry)) continue;
    if (is_grid && IsGridPoint(entry.filename().string())) below.push_back(entry);
    if (entry.filename() == kArmsFolder)
      std::ranges::copy(core::EntriesOf(entry), std::back_inserter(below));
  }
  std::erase_if(below, [](const fs::path& path) {
    return !fs::is_directory(path) || LookIntoRun(path).evaluation.empty();
  });
  return below;
}

// config.json and manifest.json count as an evaluation's only if the manifest names an evaluated
// checkpoint.
void SortHead(const fs::path& folder, RunContents* contents) {
  const bool has_manifest = fs::exists(folder / kManifestFile);
  const bool is_evaluation =
      has_manifest && core::TryParseJson(ReadRunManifest(folder)).contains("checkpoint");
  std::vector<std::string>& owner = is_evaluation ? contents->evaluation : contents->training;
  if (fs::exists(folder / kConfigFile)) owner.emplace_back(kConfigFile);
  if (has_manifest) owner.emplace_back(kManifestFile);
}

void RemoveFile(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) core::ThrowSystemError("remove", path, error);
}

// Removes the episodes' files in a folder, then the folder if it is empty.
void RemoveEpisodeFiles(const fs::path& folder) {
  if (!fs::is_directory(folder)) return;
  for (const fs::path& path : core::EntriesOf(folder)) {
    if (IsOfEpisode(path.filename().string())) RemoveFile(path);
  }
  if (fs::is_empty(folder)) RemoveFile(folder);
}

void RemoveIfEmpty(const fs::path& folder) {
  if (fs::is_directory(folder) && fs::is_empty(folder)) RemoveFile(folder);
}

}  // namespace

RunContents LookIntoRun(const fs::path& folder) {
  RunContents contents;
  if (!fs::is_directory(folder)) return contents;
  for (const std::string_view name : kTrainingNames) {
    if (fs::exists(folder / name)) contents.training.emplace_back(name);
  }
  for (const fs::path& path : core::EntriesOf(folder)) {
    const std::string name = path.filename().string();
    const bool is_seed = name.starts_with("seed_") && fs::exists(path / kManifestFile);
    if (path.extension() == ".safetensors" || is_seed) contents.training.push_back(name);
  }
  SortHead(folder, &contents);
  for (const std::string_view name : kEvaluationFiles) {
    if (fs::exists(folder / name)) contents.evaluation.emplace_back(name);
  }
  for (const fs::path& journal : JournalsIn(folder)) {
    contents.evaluation.push_back(journal.filename().string());
  }
  for (const std::string_view name : kEpisodeFolders) {
    if (HasEpisodeFiles(folder / name)) contents.evaluation.emplace_back(name);
  }
  for (const fs::path& path : EvaluationsBelow(folder)) {
    contents.evaluation.push_back(path.lexically_relative(folder).string());
  }
  contents.is_finished = fs::exists(folder / kEpisodesFile) && fs::exists(folder / kEvalLogFile);
  return contents;
}

void RequireNoRun(const fs::path& folder, bool has_overwrite, bool overwrites) {
  const RunContents contents = LookIntoRun(folder);
  if (contents.is_empty() || (overwrites && contents.training.empty())) return;
  std::vector<std::string> names = contents.training;
  names.insert(names.end(), contents.evaluation.begin(), contents.evaluation.end());
  const std::string listed = core::ListSome(names, kShownNames, "more of its files");
  if (!contents.training.empty()) {
    throw UsageError(
        "'{}' already has files of a training or of a checkpoint, which are never overwritten: {}. "
        "Continue a training with --resume, or give another --output folder.",
        folder.string(), listed);
  }
  throw UsageError("'{}' already has an evaluation{}: {}. {}{} another --output folder.",
                   folder.string(), contents.is_finished ? "" : " that is not finished", listed,
                   contents.is_finished
                       ? "Give"
                       : fmt::format("Continue it with dp_bench eval --resume {}, or give",
                                     core::ShellWord(folder.string())),
                   has_overwrite ? " --overwrite to replace it, or" : "");
}

fs::path RunThatOwns(const fs::path& file) {
  constexpr int kMostLevels = 3;  // checkpoints/latest/model.safetensors
  const fs::path absolute = fs::absolute(file).lexically_normal();
  fs::path folder = absolute.parent_path();
  for (int i = 0; i < kMostLevels && folder.has_relative_path(); ++i) {
    const fs::path name = absolute.lexically_relative(folder);
    if (IsOfRun(name)) {
      const RunContents contents = LookIntoRun(folder);
      const auto is_other = [&](const std::string& found) { return found != *name.begin(); };
      const bool is_run = std::ranges::any_of(contents.training, is_other) ||
                          std::ranges::any_of(contents.evaluation, is_other);
      if (is_run) return folder;
    }
    folder = folder.parent_path();
  }
  return {};
}

void RemoveEvaluation(const fs::path& folder) {
  // without this file the evaluation does not look finished
  RemoveFile(folder / kEpisodesFile);
  core::FsyncFolder(folder);
  for (const fs::path& below : EvaluationsBelow(folder)) {
    if (!LookIntoRun(below).training.empty()) continue;
    RemoveEvaluation(below);
    RemoveIfEmpty(below);
  }
  for (const std::string_view name : kEvaluationFiles) RemoveFile(folder / name);
  for (const fs::path& journal : JournalsIn(folder)) RemoveFile(journal);
  RemoveIfEmpty(folder / kArmsFolder);
  for (const fs::path& parent : {folder, folder / kReplayFolder}) {
    for (const std::string_view name : kEpisodeFolders) RemoveEpisodeFiles(parent / name);
  }
  RemoveIfEmpty(folder / kReplayFolder);
  // these alone make no evaluation: an export has a verdict, too
  for (const std::string_view name : {kCostFile, kVerificationFile, kDelaysPage}) {
    RemoveFile(folder / name);
  }
  if (fs::exists(folder / kManifestFile)) {
    RemoveFile(folder / kConfigFile);
    core::FsyncFolder(folder);
    RemoveFile(folder / kManifestFile);
  }
  core::FsyncFolder(folder);
}

}  // namespace dp_bench::run
