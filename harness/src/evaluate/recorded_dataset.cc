#include "evaluate/recorded_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "core/atomic_file.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/progress.h"
#include "core/stop_signal.h"
#include "data/replay_writer.h"
#include "data/zarr/metadata.h"
#include "dp_bench/build_id.h"
#include "plugin/catalogue.h"
#include "rollout/episode_recording.h"
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

bool IsRecorded(const run::EpisodeRecord& record) {
  return record.split == "test" && !record.failure_reason;
}

// The dataset until it is complete: a zarr folder beside `output`.
fs::path UnfinishedOf(const fs::path& output) {
  const fs::path path = output.has_filename() ? output : output.parent_path();
  return path.string() + ".recording.zarr";
}

bool IsFree(const fs::path& path) {
  return !fs::exists(path) || (fs::is_directory(path) && fs::is_empty(path));
}

// What the episodes are from, beside the keys that a collected dataset has.
json OriginOf(const RecordingOptions& options, const task::Experiment& experiment,
              const fs::path& folder) {
  const std::string manifest = run::ReadRunManifest(folder);
  const json run = json::parse(manifest);
  const json config = json::parse(experiment.config().ToJson());
  json origin = {{"env", config.at("env")},
                 {"env_version", experiment.EnvVersion()},
                 {"by", "policy"},
                 {"only_successes", options.only_successes},
                 {"run", fs::weakly_canonical(folder).string()},
                 {run::kRunIdKey, run::RunIdOf(manifest)},
                 {"checkpoint", run.value("checkpoint", json())}};
  if (run.contains("policy")) origin["policy"] = run.at("policy");
  return origin;
}

// The file of the dataset in `output` that says what it is from.
fs::path AboutFile(const RecordingOptions& options) {
  if (options.format == config::kZarrFormat) return options.output / zarr::kAttributesFile;
  return fs::is_directory(options.output) ? options.output / "recording.json"
                                          : fs::path(options.output.string() + ".recording.json");
}

// The content of such a file if the dataset is complete and of this origin, or else null.
json ReadAbout(const fs::path& file, const json& origin) {
  if (!fs::is_regular_file(file)) return nullptr;
  json about = core::TryParseJson(core::ReadTextFile(file, zarr::kMaxAttributeBytes));
  const bool is_of_origin = about.is_object() && about.value("origin", json()) == origin &&
                            about.value(zarr::kCompleteAttribute, json()) == true;
  return is_of_origin ? about : json();
}

// Whether the dataset is written, and only the removal of the recorded files may be missing.
bool IsWritten(const RecordingOptions& options, const task::Experiment& experiment,
               const fs::path& folder) {
  const json about = ReadAbout(AboutFile(options), OriginOf(options, experiment, folder));
  if (about.is_null()) return false;
  const int n_test = run::ReportSeeds(json::parse(experiment.config().ToJson())).n;
  return about.at("episodes").at("seed").size() + about.at("failures").size() ==
         static_cast<std::size_t>(n_test);  // there may be more seeds now
}

// The episodes of the dataset, and those that it lacks with the reason.
struct RecordedEpisodes {
  std::vector<const run::EpisodeRecord*> kept;
  std::vector<std::pair<std::uint64_t, std::string>> left_out;

  RecordedEpisodes(std::span<const run::EpisodeRecord> records, bool only_successes) {
    for (const run::EpisodeRecord& record : records) {
      if (record.split != "test") continue;
      if (record.failure_reason) {
        left_out.emplace_back(record.seed, *record.failure_reason);
      } else if (only_successes && !record.success) {
        left_out.emplace_back(record.seed, "no success");
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
    json failures = json::array();
    for (const auto& [seed, reason] : left_out) {
      failures.push_back({{"seed", seed}, {"reason", reason}});
    }
    return {{zarr::kFpsAttribute, fps},
            {"n_steps", n_steps},
            {"episodes", std::move(episodes)},
            {"failures", std::move(failures)},
            {"dp_bench", kVersion}};
  }
};

// Writes one recorded episode after another. False if it was stopped.
bool WriteZarr(const fs::path& path, const RecordedEpisodes& episodes, const EnvSpec& env,
               const json& origin, const fs::path& folder) {
  if (!ReadAbout(path / zarr::kAttributesFile, origin).is_null()) return true;  // killed after that
  const std::vector<KeySpec> keys = data::RecordedKeys(env);
  data::ReplayWriter writer(path, keys, origin);
  core::Progress progress(core::Progress::StandardError(), writer.n_episodes());
  for (auto i = static_cast<std::size_t>(writer.n_episodes()); i < episodes.kept.size(); ++i) {
    if (core::CatchStopSignals()) return false;
    const fs::path file = folder / rollout::RecordedFile(episodes.kept[i]->seed);
    writer.Append(
        data::ReplayEpisode::FromArrays(keys, run::ReadSafetensors(file).tensors, file.string()));
    progress.Update(
        {.done = writer.n_episodes(), .total = std::ssize(episodes.kept), .unit = "episodes"},
        "record", fmt::format("{} steps", writer.n_steps()));
  }
  progress.Pause();
  writer.Commit(episodes.ToAttributes(env.control_hz, writer.n_steps()), /*is_complete=*/true);
  return true;
}

// False if it was stopped.
bool ConvertRecorded(const RecordingOptions& options, const task::Experiment& experiment,
                     const std::string& instruction, const fs::path& recorded) {
  const task::DatasetConversion conversion = {
      .sources = {recorded},
      .reading = {},
      .output = options.output,
      .format = options.format,
      .params = {},
      .map = {},
      .task = instruction.empty() ? experiment.name() : instruction,
      .episodes = {},
      .stop = &core::CatchStopSignals()};
  core::Progress progress(core::Progress::StandardError(), 0);
  const task::ConversionReport report = task::ConvertDatasets(
      {&conversion, 1}, experiment.catalogue(), [&](const task::ConversionProgress& state) {
        progress.Update({.done = state.n_episodes, .total = state.n_wanted, .unit = "episodes"},
                        "convert", fmt::format("{} steps", state.n_steps));
      });
  progress.Pause();
  if (report.is_interrupted) return false;
  for (const std::string& note : report.outputs[0].notes) core::PrintResult("{}\n", note);
  core::WriteFileAtomically(AboutFile(options),
                            data::ReadReplayAttributes(recorded).dump(2) + "\n");
  core::RemoveAll(recorded);
  return true;
}

void RemoveRecordedFiles(const fs::path& folder, std::span<const run::EpisodeRecord> records) {
  for (const run::EpisodeRecord& record : records) {
    if (IsRecorded(record)) core::RemoveAll(folder / rollout::RecordedFile(record.seed));
  }
  std::error_code not_empty;  // files of others
  fs::remove(folder / run::kRecordingFolder, not_empty);
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
  std::string text = " --record-dataset " + options.output.string();
  if (options.format != config::kZarrFormat) text += " --format " + options.format;
  if (options.only_successes) text += " --record-successes";
  return text;
}

void RequireRecordable(const RecordingOptions& options, const task::Experiment& experiment,
                       const fs::path& folder, bool is_resumed,
                       std::span<const run::EpisodeRecord> found) {
  if (options.output.empty()) {
    if (!is_resumed || IsFree(folder / run::kRecordingFolder)) return;
    throw UsageError(
        "'{}' is an evaluation that is recorded: give its --record-dataset DIR again, or remove "
        "'{}' to go on without",
        folder.string(), (folder / run::kRecordingFolder).string());
  }
  if (is_resumed && IsWritten(options, experiment, folder)) return;
  std::vector<fs::path> outputs = {options.output};
  if (!is_resumed) outputs.push_back(UnfinishedOf(options.output));
  for (const fs::path& path : outputs) {
    const bool is_run = fs::weakly_canonical(path) == fs::weakly_canonical(folder);
    if (IsFree(path) && !is_run) continue;
    throw UsageError(
        "'{}' exists and is not an empty folder, or is that of the run; give another "
        "--record-dataset",
        path.string());
  }
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

bool WriteRecordedDataset(const RecordingOptions& options, const task::Experiment& experiment,
                          const EnvSpec& env, const fs::path& folder,
                          std::span<const run::EpisodeRecord> records) {
  const RecordedEpisodes episodes(records, options.only_successes);
  if (episodes.kept.empty()) {
    RemoveRecordedFiles(folder, records);
    core::PrintResult("dataset: none, because no episode is left to record\n");
    return true;
  }
  try {
    if (!IsWritten(options, experiment, folder)) {
      const fs::path unfinished = UnfinishedOf(options.output);
      const json origin = OriginOf(options, experiment, folder);
      if (!WriteZarr(unfinished, episodes, env, origin, folder)) return false;
      if (options.format == config::kZarrFormat) {
        core::RenameDurably(unfinished, options.output);
      } else if (!ConvertRecorded(options, experiment, env.instruction, unfinished)) {
        return false;
      }
    }
    RemoveRecordedFiles(folder, records);
    PrintRecorded(options.output, episodes);
    return true;
  } catch (Error& error) {
    error.AddContext(
        fmt::format("the results are in {0}, but the dataset is not written yet. Continue with "
                    "dp_bench eval --resume {0}{1}, or with another DIR",
                    folder.string(), CommandText(options)));
    throw;
  }
}

}  // namespace dp_bench::evaluate
