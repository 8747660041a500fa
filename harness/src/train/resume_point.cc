// Later checkpoints are linked into the new folder before they are removed from the old one, so
// that nothing is copied twice and nothing is missing after a crash.
#include "train/resume_point.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/atomic_file.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/json_log.h"
#include "core/regular_file.h"
#include "core/system_error.h"
#include "run/manifest.h"
#include "run/run_checkpoint.h"
#include "run/run_contents.h"
#include "run/run_files.h"
#include "train/train_config.h"
#include "train/train_state.h"

namespace dp_bench::train {

namespace {

namespace fs = std::filesystem;

constexpr const char* kExpected =
    "expected the folder of a training, or a checkpoint in its folder 'checkpoints'";

[[noreturn]] void ThrowPolicyAlone(const fs::path& path) {
  throw UsageError(
      "--resume: {0}; '{1}' is a policy outside of a run, which has no training to continue. "
      "Evaluate it with dp_bench eval --checkpoint {1}, or begin a new training with its weights: "
      "training.init_checkpoint.path={1}",
      kExpected, path.string());
}

// A crash may leave these; only a repair may use them.
void RequireWhole(const fs::path& checkpoint, const fs::path& run_folder) {
  const std::string name = checkpoint.filename().string();
  if (!core::IsTemporaryName(name) && checkpoint.extension() != ".old") return;
  throw UsageError(
      "--resume: '{}' was left by a crash; give --resume {}, which uses it if it is needed",
      checkpoint.string(), run_folder.string());
}

TrainState StateOf(const run::Checkpoint& checkpoint) {
  return TrainState::FromJson(checkpoint.state(), checkpoint.folder().string());
}

bool IsLater(const TrainState& a, const TrainState& b) {
  return std::pair(a.global_step, a.last_step.has_value()) >
         std::pair(b.global_step, b.last_step.has_value());
}

// In alphabetical order.
std::vector<std::string> CheckpointNames(const fs::path& checkpoints) {
  std::vector<std::string> names;
  for (const fs::path& path : core::EntriesOf(checkpoints)) {
    const std::string name = path.filename().string();
    if (!core::IsTemporaryName(name) && run::IsCheckpointFolder(path)) names.push_back(name);
  }
  return names;
}

// Damaged checkpoints stay where they are.
std::vector<std::string> LaterCheckpoints(const fs::path& checkpoints, const TrainState& state) {
  std::vector<std::string> later;
  for (const std::string& name : CheckpointNames(checkpoints)) {
    try {
      const run::Checkpoint checkpoint = run::Checkpoint::Open(checkpoints / name);
      if (IsLater(StateOf(checkpoint), state)) later.push_back(name);
    } catch (const Error& error) {
      core::LogWarning(error.what());
    }
  }
  return later;
}

// A file that is never changed in place. Some file systems have no links.
void LinkOrCopy(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (!error) return;
  fs::copy_file(from, to, error);
  if (error) core::ThrowSystemError("copy", from, error);
}

void LinkOrCopyAll(const fs::path& from, const fs::path& to) {
  core::CreateFolders(to.parent_path());
  if (!fs::is_directory(from)) {
    LinkOrCopy(from, to);
    return;
  }
  core::CreateFolders(to);
  for (const fs::path& path : core::EntriesOf(from)) LinkOrCopyAll(path, to / path.filename());
}

void CopyIfPresent(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (fs::exists(from)) fs::copy_file(from, to, error);
  if (error) core::ThrowSystemError("copy", from, error);
}

fs::path NextFolder(const fs::path& run_folder) {
  int n = 1;
  while (fs::exists(run_folder / kSetAsideFolder / std::to_string(n))) ++n;
  return run_folder / kSetAsideFolder / std::to_string(n);
}

fs::path SetAside(const fs::path& run_folder, const std::vector<std::string>& checkpoints,
                  const std::vector<std::string>& evaluation) {
  fs::path folder = NextFolder(run_folder);
  core::AtomicFolder aside(folder);
  for (const std::string_view file :
       {run::kTrainingLogFile, run::kConfigFile, run::kManifestFile}) {
    CopyIfPresent(run_folder / file, aside.temporary() / file);
  }
  for (const std::string& name : checkpoints) {
    LinkOrCopyAll(run_folder / run::kCheckpointsFolder / name,
                  aside.temporary() / run::kCheckpointsFolder / name);
  }
  for (const std::string& name : evaluation) {
    if (!fs::exists(aside.temporary() / name)) {
      LinkOrCopyAll(run_folder / name, aside.temporary() / name);
    }
  }
  aside.Commit();
  return folder;
}

void WarnOfMissing(const TrainState& state, const fs::path& checkpoints) {
  std::vector<std::string> missing;
  for (const auto& [name, metric] : state.topk) {
    if (!fs::exists(checkpoints / name)) missing.push_back(name);
  }
  if (missing.empty()) return;
  core::LogWarning(
      "of the best checkpoints at that moment, these were replaced by better ones later and are "
      "gone: {}",
      fmt::join(missing, ", "));
}

// The keys, and the beginnings of keys, that a resumed training may change.
constexpr std::array kFreeOnResume = {
    // how long and how it learns
    "training.num_epochs", "training.max_minutes", "training.early_stop", "training.lr_",
    "training.gradient_accumulate_every", "training.max_grad_norm", "training.mixed_precision",
    "optimizer.", "ema.",
    // what is measured, saved and logged
    "training.rollout_every", "training.val_every", "training.max_val_steps",
    "training.sample_every", "training.checkpoint_every", "val_dataloader.", "env_runner.",
    "env.perturb", "checkpoint.", "logging.",
    // where things are, and what the machine can do
    "training.resume", "training.device", "training.teacher.path", "dataloader.num_workers",
    "dataset.params.path", "dataset.params.memory_limit_mb", "env.params.python",
    "policy.params.gradient_checkpointing", "policy.backend"};

// A line for each value below `key` that differs and may not. A key that only `before` has was not
// read yet.
void AppendChanges(const std::string& key, const nlohmann::json& before, const nlohmann::json& now,
                   std::vector<std::string>* lines) {
  if (before == now) return;
  if (now.is_object() && (before.is_object() || before.is_null())) {
    for (const auto& [name, value] : now.items()) {
      AppendChanges(key.empty() ? name : key + "." + name,
                    before.is_null() ? before : before.value(name, nlohmann::json()), value, lines);
    }
    return;
  }
  const bool is_free = std::ranges::any_of(
      kFreeOnResume, [&key](const char* free) { return key.starts_with(free); });
  if (is_free) return;
  lines->push_back(
      fmt::format("  {}: {}, not {}", key, core::ShortDump(before), core::ShortDump(now)));
}

constexpr std::size_t kBlockBytes = 1U << 20;
constexpr std::int64_t kWhole = std::numeric_limits<std::int64_t>::max();

void CopyStart(const fs::path& from, const fs::path& to, std::int64_t n_bytes) {
  core::RegularFile file(from);
  core::AtomicFile copy(to);
  std::vector<std::byte> block(kBlockBytes);
  while (n_bytes > 0) {
    const auto wanted = static_cast<std::size_t>(std::min<std::int64_t>(n_bytes, kBlockBytes));
    const std::size_t n = file.Read(std::span(block).first(wanted));
    if (n == 0) break;
    copy.Write(std::span(block).first(n));
    n_bytes -= static_cast<std::int64_t>(n);
  }
  copy.Commit();
}

}  // namespace

ResumePoint FindResumePoint(const fs::path& path, const std::string& name) {
  const bool is_checkpoint = run::IsCheckpointFolder(path);
  ResumePoint point = {.run_folder = run::FindRunOf(path)};
  if (is_checkpoint && point.run_folder == path) ThrowPolicyAlone(path);
  RequireTraining(point.run_folder);
  if (is_checkpoint) {
    if (!name.empty()) {
      throw UsageError(
          "--resume '{}' and --checkpoint {} name two checkpoints; give --resume {} with "
          "--checkpoint",
          path.string(), name, point.run_folder.string());
    }
    RequireWhole(path, point.run_folder);
    point.checkpoint = path;
  } else if (!name.empty()) {
    point.checkpoint = FindCheckpointOfRun(point.run_folder, name);
  }
  return point;
}

void RequireTraining(const fs::path& run_folder) {
  const std::string path = run_folder.string();
  if (!fs::exists(run_folder / run::kConfigFile)) {
    throw UsageError("--resume: {}; '{}' has no {}", kExpected, path, run::kConfigFile);
  }
  const bool has_manifest = fs::exists(run_folder / run::kManifestFile);
  if (has_manifest && run::EvaluatedCheckpoint(run::ReadRunManifest(run_folder))) {
    throw UsageError(
        "--resume: {0}; '{1}' is an evaluation. Continue it with dp_bench eval --resume {1}",
        kExpected, path);
  }
  if (!run::CheckpointStore(run_folder / run::kCheckpointsFolder).HasCheckpoints()) {
    RequireNothingToLose(run_folder);
  }
}

void RequireNothingToLose(const fs::path& run_folder) {
  const run::CheckpointStore store(run_folder / run::kCheckpointsFolder);
  const run::RunContents contents = run::LookIntoRun(run_folder);
  // a training that was killed before its log began
  const bool is_head_only = std::ranges::all_of(contents.training, [](const std::string& name) {
    return name == run::kConfigFile || name == run::kManifestFile ||
           name == run::kCheckpointsFolder;
  });
  if (!store.HasCheckpoints() && contents.evaluation.empty() &&
      (is_head_only || store.IsBegunEmpty())) {
    return;
  }
  throw CheckpointError(
      "'{}' cannot be resumed: a training was there, but there is no checkpoint to continue from "
      "in '{}'. Put its checkpoints back, choose one with --checkpoint, or start again in another "
      "--output folder.",
      run_folder.string(), store.folder().string());
}

fs::path FindCheckpointOfRun(const fs::path& run_folder, const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (run::IsCheckpointFolder(name)) return name;
    throw UsageError("--checkpoint {}: this folder is no checkpoint", name);
  }
  const fs::path checkpoints = run_folder / run::kCheckpointsFolder;
  const std::vector<std::string> names = CheckpointNames(checkpoints);
  if (std::ranges::find(names, name) != names.end()) return checkpoints / name;
  std::vector<std::string> matches;
  std::ranges::copy_if(names, std::back_inserter(matches),
                       [&](const std::string& other) { return other.starts_with(name); });
  if (matches.size() == 1) return checkpoints / matches.front();
  throw UsageError(
      "--checkpoint {}: expected the name of one checkpoint, or its beginning; '{}' has {}", name,
      checkpoints.string(), names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

void RequireSameTraining(const nlohmann::json& before, const nlohmann::json& now) {
  std::vector<std::string> lines;
  AppendChanges("", before, now, &lines);
  const nlohmann::json rolls = core::ValueAt(now, "/training/max_roll_forward");
  if (rolls.is_number() && rolls > 0) {  // then it makes the samples
    constexpr const char* kFollowed = "/env_runner/chunking/followed_actions";
    if (core::ValueAt(before, kFollowed) != core::ValueAt(now, kFollowed)) {
      lines.emplace_back(
          "  env_runner.chunking.followed_actions, which training.max_roll_forward uses");
    }
  }
  if (lines.empty()) return;
  throw UsageError(
      "--resume continues with the samples and the network of the run, whose config says:\n{}\n"
      "Resume without these changes, or begin a new training with the weights: "
      "training.init_checkpoint.path=CHECKPOINT",
      fmt::format("{}", fmt::join(lines, "\n")));
}

void RequireResumable(const run::Checkpoint& checkpoint, bool use_ema) {
  const CheckpointParts parts = {.model = checkpoint.Has(run::kModelFile),
                                 .ema = checkpoint.Has(run::kEmaFile),
                                 .optimizer = checkpoint.Has(run::kOptimizerFile)};
  const std::string missing = parts.MissingForResume(use_ema);
  if (missing.empty()) return;
  throw CheckpointError(
      "'{}' cannot be resumed from: it was saved without {}. It can be evaluated with `dp_bench "
      "eval --checkpoint`, and a new training can begin with its weights "
      "(training.init_checkpoint).",
      checkpoint.folder().string(), missing);
}

std::int64_t RequireLogOf(const fs::path& run_folder, const run::Checkpoint& checkpoint) {
  const TrainState state = StateOf(checkpoint);
  const fs::path log = run_folder / run::kTrainingLogFile;
  const auto log_bytes = static_cast<std::int64_t>(fs::exists(log) ? fs::file_size(log) : 0);
  if (log_bytes >= state.log_position) return log_bytes;
  throw UsageError("'{}' is no checkpoint of this run: '{}' ends before its step {}",
                   checkpoint.folder().string(), log.string(), state.global_step);
}

std::optional<fs::path> RewindRun(const fs::path& run_folder, const run::Checkpoint& chosen) {
  const TrainState state = StateOf(chosen);
  const fs::path log = run_folder / run::kTrainingLogFile;
  const std::int64_t log_bytes = RequireLogOf(run_folder, chosen);
  const fs::path checkpoints = run_folder / run::kCheckpointsFolder;
  run::CheckpointStore store(checkpoints);
  store.Repair();
  const std::vector<std::string> later = LaterCheckpoints(checkpoints, state);
  std::vector<std::string> evaluation;
  std::optional<fs::path> aside;
  if (log_bytes > state.log_position || !later.empty()) {
    evaluation = run::LookIntoRun(run_folder).evaluation;
    aside = SetAside(run_folder, later, evaluation);
  }

  const fs::path latest = checkpoints / run::kLatest;
  std::error_code missing;
  if (!fs::equivalent(chosen.folder(), latest, missing)) {
    store.Replace(run::kLatest, [&](const fs::path& folder) {
      for (const fs::path& path : core::EntriesOf(chosen.folder())) {
        LinkOrCopy(path, folder / path.filename());
      }
    });
  }
  for (const std::string& name : later) {
    if (name != run::kLatest) store.Remove(name);
  }
  for (const std::string& name : evaluation) core::RemoveAll(run_folder / name);
  if (log_bytes > state.log_position) core::JsonLog(log, state.log_position).Sync();  // cuts it
  WarnOfMissing(state, checkpoints);
  if (aside) {
    core::LogInfo("what the training did after step {} is set aside in '{}'", state.global_step,
                  aside->string());
  }
  return aside;
}

std::optional<fs::path> SetEvaluationAside(const fs::path& run_folder) {
  const std::vector<std::string> evaluation = run::LookIntoRun(run_folder).evaluation;
  const auto is_outcome = [](const std::string& name) {
    return name == run::kEpisodesFile || name == run::kJournalFile;
  };
  if (std::ranges::none_of(evaluation, is_outcome)) return std::nullopt;
  fs::path aside = SetAside(run_folder, {}, evaluation);
  for (const std::string& name : evaluation) core::RemoveAll(run_folder / name);
  return aside;
}

fs::path WriteSnapshot(const fs::path& run_folder, const std::string& tag,
                       const run::CheckpointContents& contents, std::int64_t log_bytes) {
  if (tag.empty() || tag.front() == '.' || tag.find('/') != std::string::npos) {
    throw UsageError("the tag '{}' of a snapshot is not a valid folder name", tag);
  }
  const fs::path folder = run_folder / kSnapshotFolder;
  run::CheckpointStore(folder).Replace(tag, [&](const fs::path& snapshot) {
    const fs::path checkpoint = snapshot / run::kCheckpointsFolder / run::kLatest;
    core::CreateFolders(checkpoint);
    run::WriteCheckpointFiles(checkpoint, contents);
    core::WriteFileAtomically(snapshot / run::kConfigFile, contents.config);
    CopyStart(run_folder / run::kTrainingLogFile, snapshot / run::kTrainingLogFile, log_bytes);
  });
  return folder / tag;
}

void CreateFromSnapshot(const fs::path& snapshot, const fs::path& run_folder,
                        const fs::path& checkpoint) {
  if (fs::exists(run_folder)) {
    throw UsageError("'{}' exists already; give a new folder for the continued training",
                     run_folder.string());
  }
  const std::optional<run::Checkpoint> chosen =
      checkpoint.empty() ? run::CheckpointStore(snapshot / run::kCheckpointsFolder).OpenLatest()
                         : run::Checkpoint::Open(checkpoint);
  if (!chosen) throw CheckpointError("'{}' has no checkpoint to continue from", snapshot.string());
  core::AtomicFolder run(run_folder);
  const fs::path latest = run.temporary() / run::kCheckpointsFolder / run::kLatest;
  core::CreateFolders(latest);
  for (const fs::path& file : core::EntriesOf(chosen->folder())) {
    if (fs::is_regular_file(file)) CopyStart(file, latest / file.filename(), kWhole);
  }
  run::Checkpoint::Open(latest);  // the other run may have replaced files meanwhile
  core::WriteFileAtomically(run.temporary() / run::kConfigFile, chosen->config());
  // the checkpoint records how much of the log counts
  if (fs::exists(snapshot / run::kTrainingLogFile)) {
    CopyStart(snapshot / run::kTrainingLogFile, run.temporary() / run::kTrainingLogFile, kWhole);
  }
  run.Commit();
}

}  // namespace dp_bench::train
