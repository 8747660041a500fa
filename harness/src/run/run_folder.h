// Reads back what a run left in its folder. Pages are made of a RunFolder alone, so they can be
// made again at any time.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "run/episode_record.h"
#include "run/film_notes.h"
#include "run/perturbation_effects.h"
#include "run/planning.h"
#include "run/seed_use.h"

namespace dp_bench::run {

struct CurvePoint {
  double epoch = 0.0;
  double value = 0.0;
};

/// The files of a run folder; what is absent stays empty.
struct RunFolder {
  std::filesystem::path path;
  std::vector<EpisodeRecord> episodes;                    // episodes.jsonl
  nlohmann::json eval_log;                                // eval_log.json
  std::map<std::string, std::vector<CurvePoint>> curves;  // logs.json.txt, by key
  std::string config;                                     // config.json, as text
  std::string manifest;                                   // manifest.json, as text
  std::optional<SeedUse> seeds;                           // as the manifest says
  std::string unfinished;  // why its evaluation has no result yet, and what to do; else empty
  std::vector<std::string> notes;  // what the reader of the report should know about these files

  std::filesystem::path config_file() const;
  std::filesystem::path report_file() const;  // where its page is

  /// What pages alone show is read when they ask for it; nothing where the run has none. Each
  /// throws as ReadRunFolder does.
  std::optional<PolicyLatencySummary> ReadLatency() const;
  std::optional<Denoising> ReadDenoising() const;
  std::optional<PerturbationEffects> ReadEffects() const;

  /// The film that an episode of this run names, which may be gone; nothing when it names none, or
  /// one outside of the folder.
  std::optional<std::filesystem::path> FilmOf(const EpisodeRecord& record) const;
  /// Its bytes; nothing when it is gone or has more than `max_bytes`.
  std::optional<std::string> ReadFilmOf(const EpisodeRecord& record, std::size_t max_bytes) const;
  std::optional<FilmNotes> ReadNotesOf(const EpisodeRecord& record) const;
};

/// Throws Error{kData} naming file and line when a file is not what it should be, and naming both
/// files when they are not of the same run (run/run_id.h; folders of versions before 0.2 do not
/// say); Error{kIo} when one cannot be read. Lines of the log that a crash cut off are skipped, and
/// noted.
RunFolder ReadRunFolder(const std::filesystem::path& path);

/// Throws Error{kData} with the command that continues a run whose evaluation has no result yet.
void RequireFinished(const RunFolder& folder);

/// The texts of a run folder's files; what is absent stays empty.
struct RunFolderTexts {
  std::string episodes;
  std::string eval_log;
  std::string log;
  std::string config;
  std::string manifest;
};

/// ReadRunFolder for a folder whose files have these texts.
RunFolder ParseRunFolder(const std::filesystem::path& path, RunFolderTexts texts);

/// Whether a path that a file names stays below the folder of that file; an empty one does not.
bool StaysBelow(const std::string& relative_path);

/// Of its episodes, test first: it is the headline.
std::vector<std::string> SplitsOf(const RunFolder& folder);

/// "kuavo_dualarm, pick_place": env and task of the config; empty when it names no env.
std::string TaskTitle(const RunFolder& folder);

/// "transformer on kuavo_dualarm, pick_place", as far as the config says; else the folder's name.
std::string RunTitle(const RunFolder& folder);

}  // namespace dp_bench::run
