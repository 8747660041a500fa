// Reads the files of a run. Pages need only a RunFolder, so they can be made again at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/machine.h"
#include "run/episode_record.h"
#include "run/manifest.h"
#include "run/perturbation_effects.h"
#include "run/planning.h"
#include "run/video_notes.h"

namespace dp_bench::run {

struct CurvePoint {
  double epoch = 0.0;
  double value = 0.0;
};

/// The curves of a larger log are not read, and a note says so: the results do not need them.
inline constexpr std::uint64_t kMaxLogBytes = std::uint64_t{1} << 30;

/// The files of a run folder. Missing files leave their fields empty.
struct RunFolder {
  std::filesystem::path path;
  std::vector<EpisodeRecord> episodes;                    // episodes.jsonl
  nlohmann::json eval_log;                                // eval_log.json
  std::map<std::string, std::vector<CurvePoint>> curves;  // logs.json.txt, by key
  std::string config;                                     // config.json, as text
  std::string manifest;                                   // manifest.json, as text
  std::optional<SeedUse> seeds;                           // from the manifest
  std::string unfinished;          // why there is no result yet, and what to do
  std::vector<std::string> notes;  // remarks about these files for the report

  // of a baseline of dp_bench gate (compare/graded_score.h)
  std::string decided_by = "success";
  int horizon = 0;  // steps; for time_to_success

  // of a result that another program wrote (run/foreign_result.h)
  std::string seed_origin;         // the program that numbered the seeds; empty: dp_bench
  bool has_seeds = true;           // false: `seed` only counts the episodes
  std::vector<std::string> tasks;  // by name; empty: the config has the task

  std::filesystem::path config_file() const;
  std::filesystem::path report_file() const;  // its page

  /// Files that only pages need are read on demand; none if the run has no such file. Errors as in
  /// ReadRunFolder.
  std::optional<core::Cost> ReadCost() const;
  std::optional<PolicyLatencySummary> ReadLatency() const;
  std::optional<PerturbationEffects> ReadEffects() const;

  /// verification.json: the verdict on a faster policy (evaluate/verification.h).
  std::optional<nlohmann::json> ReadVerification() const;

  /// The video of an episode; the file may have been removed. None if the episode has no video or
  /// the path is outside of the folder.
  std::optional<std::filesystem::path> VideoOf(const EpisodeRecord& record) const;
  std::optional<VideoNotes> ReadNotesOf(const EpisodeRecord& record) const;
};

/// Throws Error{kData} naming file and line if a file is invalid, or naming two files that are not
/// of the same run (run/manifest.h; not checked for folders of versions before 0.2), Error{kIo} if
/// a file cannot be read. Incomplete lines of the log are skipped and noted.
RunFolder ReadRunFolder(const std::filesystem::path& path);

/// If the evaluation has no result yet, throws Error{kData} with the command that continues it.
void RequireFinished(const RunFolder& folder);

/// Whether a relative path stays inside the folder that it is relative to; false for an empty path.
bool StaysBelow(const std::string& relative_path);

/// The splits of its episodes, test first.
std::vector<std::string> SplitsOf(const RunFolder& folder);

/// "kuavo_dualarm, pick_place": env and task of the config; empty without an env.
std::string TaskTitle(const RunFolder& folder);

/// "transformer on kuavo_dualarm, pick_place", "unet_hybrid on metaworld, push-v3", or the folder's
/// name if the config does not say.
std::string RunTitle(const RunFolder& folder);

}  // namespace dp_bench::run
