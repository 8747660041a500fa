#include "evaluate/recorded_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "core/atomic_file.h"
#include "core/clock.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/progress.h"
#include "core/shell.h"
#include "core/stop_signal.h"
#include "data/replay_writer.h"
#include "data/zarr/metadata.h"
#include "dp_bench/dataset.h"
#include "plugin/catalogue.h"
#include "rollout/episode_slot.h"
#include "rollout/perturbed_env.h"
#include "run/manifest.h"
#include "run/run_files.h"
#include "run/safetensors.h"
#include "task/dataset_conversion.h"

namespace dp_bench::evaluate {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kShownLeftOut = 5;
constexpr double kCommitSeconds = 2.0;  // of work that a kill may lose
constexpr std::size_t kMaxOptionsBytes = std::size_t{1} << 20;

bool IsRecorded(const run::EpisodeRecord& record) {
  return record.split == "test" && !record.failure_reason;
}

// The dataset until it is complete: a zarr folder beside `output`.
fs::path UnfinishedOf(const fs::path& output) { return core::Beside(output, ".recording.zarr"); }

// What a kill may have left of making the dataset. The last one shows whose they are.
void RemoveUnfinished(const fs::path& output) {
  core::RemoveAll(core::Beside(output, ".unfinished"));
  core::RemoveAll(core::Beside(output, ".unfinished.json"));
  core::RemoveAll(UnfinishedOf(output));
}

bool IsFree(const fs::path& path) {
  return !fs::exists(path) || (fs::is_directory(path) && fs::is_empty(path));
}

fs::path OptionsFile(const fs::path& folder) {
  return folder / run::kRecordingFolder / run::kRecordingOptionsFile;
}

// What the evaluation in the folder was begun with; none if it is not recorded.
std::optional<RecordingOptions> BegunWith(const fs::path& folder) {
  const fs::path file = OptionsFile(folder);
  if (!fs::exists(file)) return std::nullopt;
  const json noted = core::ReadJsonFile(file, kMaxOptionsBytes);
  const std::string name = file.string();
  const core::JsonView view(noted, name);
  return RecordingOptions{.output = view.Get<std::string>("output"),
                          .format = view.Get<std::string>("format"),
                          .only_successes = view.Get<bool>("only_successes")};
}

// As the origin of a dataset names it.
std::string RunOf(const fs::path& folder) { return fs::weakly_canonical(folder).string(); }

// What the episodes are from, beside the keys that a collected dataset has.
json OriginOf(const RecordingOptions& options, const task::Experiment& experiment,
              const fs::path& folder) {
  const std::string manifest = run::ReadRunManifest(folder);
  const json run = json::parse(manifest);
  const json config = json::parse(experiment.config().ToJson());
  json origin = {{"env", config.at("env")},
                 {"env_version", experiment.EnvPlugin().version},
                 {"by", "policy"},
                 {"only_successes", options.only_successes},
                 {"run", RunOf(folder)},
                 {run::kRunIdKey, run::RunIdOf(manifest)},
                 {"checkpoint", run.value("checkpoint", json())}};
  if (run.contains("policy")) origin["policy"] = run.at("policy");
  return origin;
}

// The file that says what the dataset is from.
fs::path AboutFile(const RecordingOptions& options) {
  return options.format == config::kZarrFormat
             ? options.output / zarr::kAttributesFile
             : core::Beside(options.output, data::kAttributesBeside);
}

// The content of such a file if the dataset is complete and of this origin, or else null.
json ReadAbout(const fs::path& file, const json& origin) {
  if (!fs::is_regular_file(file)) return nullptr;
  json about = core::TryParseJson(core::ReadTextFile(file, zarr::kMaxAttributeBytes));
  const bool is_of_origin = about.is_object() && about.value("origin", json()) == origin &&
                            about.value(zarr::kCompleteAttribute, json()) == true;
  return is_of_origin ? about : json();
}

// False if there is none, or something else: the file about it may be older than the dataset.
bool HasEpisodes(const fs::path& output, std::size_t n_episodes, std::int64_t n_steps,
                 plugin::PluginCatalogue& catalogue) {
  try {
    const std::unique_ptr<Dataset> dataset = task::OpenDataset(output, {}, catalogue);
    const std::span<const std::int64_t> ends = dataset->episode_ends();
    return ends.size() == n_episodes && ends.back() == n_steps;
  } catch (const Error&) {
    return false;
  }
}

// Whether the dataset is written, and only the removal of the recorded files may be missing.
bool IsWritten(const RecordingOptions& options, const task::Experiment& experiment,
               const fs::path& folder) {
  const json about = ReadAbout(AboutFile(options), OriginOf(options, experiment, folder));
  if (about.is_null()) return false;
  const int n_test = run::ReportSeeds(json::parse(experiment.config().ToJson())).n;
  const std::size_t n_episodes = about.at("episodes").at("seed").size();
  const bool has_all_seeds =  // there may be more now
      n_episodes + about.at("failures").size() == static_cast<std::size_t>(n_test);
  return has_all_seeds &&
         HasEpisodes(options.output, n_episodes, about.at("n_steps"), experiment.catalogue());
}

// The episodes of the dataset, and those that it lacks with the reason.
struct RecordedEpisodes {
  std::vector<const run::EpisodeRecord*> kept;
  std::vector<data::SeedFailure> left_out;

  RecordedEpisodes(std::span<const run::EpisodeRecord> records, bool only_successes) {
    for (const run::EpisodeRecord& record : records) {
      if (record.split != "test") continue;
      if (record.failure_reason) {
        left_out.push_back({record.seed, *record.failure_reason});
      } else if (only_successes && !record.success) {
        left_out.push_back({record.seed, "no success"});
      } else {
        kept.push_back(&record);
      }
    }
  }

  json ToAttributes(double fps, std::int64_t n_steps) const {
    json episodes = {{"seed", json::array()},
                     {"success", json::array()},
                     {"score", json::array()},
                     {"terminated", json::array()}};
    for (const run::EpisodeRecord* record : kept) {
      episodes["seed"].push_back(record->seed);
      episodes["success"].push_back(record->success);
      episodes["score"].push_back(record->score);
      episodes["terminated"].push_back(record->course && record->course->is_terminated);
    }
    return data::RolloutAttributes(fps, n_steps, std::move(episodes), left_out);
  }
};

// Writes one recorded episode after another. False if it was stopped.
bool WriteZarr(const fs::path& path, const RecordedEpisodes& episodes, const EnvSpec& env,
               const json& origin, const fs::path& folder) {
  if (!ReadAbout(path / zarr::kAttributesFile, origin).is_null()) return true;  // killed after that
  const std::vector<KeySpec> keys = data::RecordedKeys(env);
  data::ReplayWriter writer(path, keys, origin);
  const auto n_wanted = std::ssize(episodes.kept);
  const auto is_complete = [&] { return writer.n_episodes() == n_wanted; };
  const auto commit = [&] {
    writer.Commit(episodes.ToAttributes(env.control_hz, writer.n_steps()), is_complete());
  };
  core::Progress progress(core::Progress::StandardError(), writer.n_episodes());
  auto last_commit = std::chrono::steady_clock::now();
  while (!is_complete() && !core::CatchStopSignals()) {
    const auto& record = *episodes.kept[static_cast<std::size_t>(writer.n_episodes())];
    const fs::path file = folder / rollout::RecordedFile(record.seed);
    writer.Append(
        data::ReplayEpisode::FromArrays(keys, run::ReadSafetensors(file).tensors, file.string()));
    progress.Update({.done = writer.n_episodes(), .total = n_wanted, .unit = "episodes"}, "record",
                    fmt::format("{} steps", writer.n_steps()));
    if (core::SecondsSince(last_commit) < kCommitSeconds) continue;
    commit();
    last_commit = std::chrono::steady_clock::now();
  }
  progress.Pause();
  commit();
  return is_complete();
}

// False if it was stopped.
bool ConvertRecorded(const RecordingOptions& options, const task::Experiment& experiment,
                     const fs::path& recorded) {
  // first, so that a kill never leaves a dataset without it
  core::WriteFileAtomically(AboutFile(options),
                            data::ReadReplayAttributes(recorded).dump(2) + "\n");
  const task::ConversionReport report =
      task::ConvertShowingProgress({{.sources = {recorded},
                                     .output = options.output,
                                     .format = options.format,
                                     .task = experiment.TaskText(),
                                     .is_described = true}},
                                   experiment.catalogue());
  if (report.is_interrupted) return false;
  for (const std::string& note : report.outputs[0].notes) core::PrintResult("{}\n", note);
  return true;
}

void RemoveRecordedFiles(const fs::path& folder, std::span<const run::EpisodeRecord> records) {
  for (const run::EpisodeRecord& record : records) {
    if (IsRecorded(record)) core::RemoveAll(folder / rollout::RecordedFile(record.seed));
  }
  core::RemoveAll(OptionsFile(folder));
  std::error_code not_empty;  // files of others
  fs::remove(folder / run::kRecordingFolder, not_empty);
}

// Whether a dataset that was begun has the episodes of the run in this folder.
bool IsOfRun(const json& begun, const fs::path& folder) {
  return core::ValueAt(begun, "/origin/run") == RunOf(folder);
}

// Nothing may be where the dataset will be or is made, but what this evaluation has begun there.
void RequireFree(const RecordingOptions& options, const fs::path& folder, bool is_resumed) {
  const json begun = data::ReadReplayAttributes(UnfinishedOf(options.output));
  const bool is_own = is_resumed && IsOfRun(begun, folder);
  std::vector<fs::path> outputs = {options.output};
  if (!is_own) outputs.push_back(core::Beside(options.output, ".unfinished"));
  // a kill may leave it without attributes
  if (!is_own && !(is_resumed && begun.is_null())) outputs.push_back(UnfinishedOf(options.output));
  for (const fs::path& path : outputs) {
    const bool may_be_empty = options.format == config::kZarrFormat || path != options.output;
    const bool is_free = may_be_empty ? IsFree(path) : !fs::exists(path);
    if (is_free && fs::weakly_canonical(path) != fs::weakly_canonical(folder)) continue;
    throw UsageError("'{}' exists, or is the folder of the run; give another --record-dataset",
                     path.string());
  }
}

// Without it, the recorded episodes cannot be continued.
std::string ServerNote(const task::Experiment& experiment) {
  const json url = json::parse(experiment.config().ToJson())
                       .value(json::json_pointer("/policy/params/url"), json());
  return url.is_string() ? "; the policy server must be running" : "";
}

void PrintRecorded(const fs::path& output, const RecordedEpisodes& episodes) {
  const auto n_successes =
      std::ranges::count_if(episodes.kept, [](const auto* record) { return record->success; });
  std::int64_t n_steps = 0;
  for (const run::EpisodeRecord* record : episodes.kept) n_steps += record->n_steps;
  core::PrintResult("dataset: {}, {} episodes ({} with success), {} steps\n", output.string(),
                    episodes.kept.size(), n_successes, n_steps);
  const std::size_t n = episodes.left_out.size();
  for (std::size_t i = 0; i < std::min(n, kShownLeftOut); ++i) {
    const auto& [seed, reason] = episodes.left_out[i];
    core::PrintResult("  without test seed {}: {}\n", seed, reason);
  }
  if (n > kShownLeftOut) core::PrintResult("  and without {} more\n", n - kShownLeftOut);
}

}  // namespace

std::string CommandText(const RecordingOptions& options) {
  if (options.output.empty()) return "";
  std::string text = " --record-dataset " + core::ShellWord(options.output.string());
  if (options.format != config::kZarrFormat) text += " --format " + options.format;
  if (options.only_successes) text += " --record-successes";
  return text;
}

void RequireRecordable(const RecordingOptions& options, const task::Experiment& experiment,
                       const fs::path& folder, bool is_resumed,
                       std::span<const run::EpisodeRecord> found) {
  const std::optional<RecordingOptions> begun = is_resumed ? BegunWith(folder) : std::nullopt;
  const std::string again = begun ? CommandText(*begun) : " --record-dataset DIR";
  if (options.output.empty()) {
    if (!is_resumed || IsFree(folder / run::kRecordingFolder)) return;
    throw UsageError(
        "'{0}' is an evaluation that is recorded: continue it with dp_bench eval --resume {0}{1}, "
        "or remove '{2}' to go on without",
        folder.string(), again, (folder / run::kRecordingFolder).string());
  }
  if (begun && begun->only_successes != options.only_successes) {
    throw UsageError(
        "'{0}' was begun {1} --record-successes, which cannot change; continue it with dp_bench "
        "eval --resume {0}{2}",
        folder.string(), begun->only_successes ? "with" : "without", again);
  }
  if (is_resumed && IsWritten(options, experiment, folder)) return;
  RequireFree(options, folder, is_resumed);
  if (options.format != config::kZarrFormat) {
    experiment.catalogue().Find(PluginKind::kDatasetWriter, options.format);
  }
  const auto perturbation = rollout::ActionPerturbation::FromConfig(experiment.config().Sub("env"));
  if (perturbation && (perturbation->delay > 0 || perturbation->noise > 0.0)) {
    throw UsageError(
        "--record-dataset records the actions that the env executes, and env.perturb changes them "
        "on their way; evaluate without it");
  }
  for (const run::EpisodeRecord& record : found) {
    if (!IsRecorded(record) || fs::exists(folder / rollout::RecordedFile(record.seed))) continue;
    throw UsageError(
        "'{}' has episodes that were not recorded, such as test seed {}: --record-dataset is for "
        "an evaluation that was recorded from its beginning. Begin another one in a folder of its "
        "own.",
        folder.string(), record.seed);
  }
}

void NoteRecording(const RecordingOptions& options, const fs::path& folder) {
  const json noted = {{"output", options.output.string()},
                      {"format", options.format},
                      {"only_successes", options.only_successes}};
  core::CreateFolders(folder / run::kRecordingFolder);
  core::WriteFileAtomically(OptionsFile(folder), noted.dump(2) + "\n");
}

bool WriteRecordedDataset(const RecordingOptions& options, const task::Experiment& experiment,
                          const EnvSpec& env, const fs::path& folder,
                          std::span<const run::EpisodeRecord> records) {
  const RecordedEpisodes episodes(records, options.only_successes);
  if (episodes.kept.empty()) {
    RemoveRecordedFiles(folder, records);
    core::PrintResult("dataset: none, because no episode is left to record\n");
    return true;
  }
  const fs::path unfinished = UnfinishedOf(options.output);
  try {
    if (!IsWritten(options, experiment, folder)) {
      const json origin = OriginOf(options, experiment, folder);
      const json begun = data::ReadReplayAttributes(unfinished);
      const bool has_fewer_seeds = IsOfRun(begun, folder) && begun.at("origin") != origin;
      if (has_fewer_seeds) RemoveUnfinished(options.output);
      if (!WriteZarr(unfinished, episodes, env, origin, folder)) return false;
      if (options.format == config::kZarrFormat) {
        core::RenameDurably(unfinished, options.output);
      } else if (!ConvertRecorded(options, experiment, unfinished)) {
        return false;
      }
    }
    RemoveUnfinished(options.output);
    RemoveRecordedFiles(folder, records);
    PrintRecorded(options.output, episodes);
    return true;
  } catch (Error& error) {
    error.AddContext(fmt::format(
        "the results are in {0}, but the dataset is not written yet. Continue with "
        "dp_bench eval --resume {0}{1}, or with another DIR (then {2} can be removed){3}",
        core::ShellWord(folder.string()), CommandText(options), unfinished.string(),
        ServerNote(experiment)));
    throw;
  }
}

}  // namespace dp_bench::evaluate
