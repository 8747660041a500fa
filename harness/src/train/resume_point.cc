// See resume_point.h.
#include "train/resume_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/atomic_file.h"
#include "dp_bench/error.h"
#include "run/run_checkpoint.h"
#include "run/run_contents.h"
#include "run/run_files.h"
#include "run/run_id.h"
#include "run/store.h"
#include "train/rewind.h"

namespace dp_bench::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExpected =
    "expected the folder of a training, or a checkpoint in its folder 'checkpoints'";

[[noreturn]] void ThrowPolicyAlone(const fs::path& path) {
  throw Error(
      ErrorCode::kUsage,
      fmt::format("--resume: {0}; '{1}' is a policy outside of a run, which has no training "
                  "to continue. Evaluate it with dp_bench eval --checkpoint {1}, or begin a "
                  "new training with its weights: "
                  "training.init_checkpoint.path={1}",
                  kExpected, path.string()));
}

// A crash may leave these; only a repair may use them.
void RequireWhole(const fs::path& checkpoint, const fs::path& run_folder) {
  const std::string name = checkpoint.filename().string();
  if (!core::IsTemporaryName(name) && checkpoint.extension() != ".old") return;
  throw Error(ErrorCode::kUsage,
              fmt::format("--resume: '{}' was left by a crash; give --resume {}, which uses it if "
                          "it is needed",
                          checkpoint.string(), run_folder.string()));
}

}  // namespace

ResumePoint FindResumePoint(const fs::path& path, const std::string& name) {
  const bool is_checkpoint = run::IsCheckpointFolder(path);
  ResumePoint point = {.run_folder = run::FindRunOf(path)};
  if (is_checkpoint && point.run_folder == path) ThrowPolicyAlone(path);
  RequireTraining(point.run_folder);
  if (is_checkpoint) {
    if (!name.empty()) {
      throw Error(
          ErrorCode::kUsage,
          fmt::format("--resume '{}' and --checkpoint {} name two checkpoints; give --resume "
                      "{} with --checkpoint",
                      path.string(), name, point.run_folder.string()));
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
    throw Error(ErrorCode::kUsage,
                fmt::format("--resume: {}; '{}' has no {}", kExpected, path, run::kConfigFile));
  }
  const bool has_manifest = fs::exists(run_folder / run::kManifestFile);
  if (has_manifest && run::EvaluatedCheckpoint(run::ReadRunManifest(run_folder))) {
    throw Error(ErrorCode::kUsage,
                fmt::format("--resume: {0}; '{1}' is an evaluation. Continue it with dp_bench eval "
                            "--resume {1}",
                            kExpected, path));
  }
  if (!run::CheckpointStore(run_folder / run::kCheckpointsFolder).HasCheckpoints()) {
    RequireNothingToLose(run_folder);
  }
}

void RequireNothingToLose(const fs::path& run_folder) {
  const run::CheckpointStore store(run_folder / run::kCheckpointsFolder);
  const run::RunContents contents = run::LookIntoRun(run_folder);
  const bool is_head_only = std::ranges::all_of(contents.training, [](const std::string& name) {
    return name == run::kConfigFile || name == run::kManifestFile;
  });
  if (!store.HasCheckpoints() && contents.evaluation.empty() &&
      (is_head_only || store.IsBegunEmpty())) {
    return;
  }
  throw Error(
      ErrorCode::kCheckpoint,
      fmt::format("'{}' cannot be resumed: a training was there, but there is no checkpoint to "
                  "continue from in '{}'. Put its checkpoints back, choose one with --checkpoint, "
                  "or start again in another --output folder.",
                  run_folder.string(), store.folder().string()));
}

}  // namespace dp_bench::train
