// The result files of an evaluation: episodes.jsonl, one row per episode, and eval_log.json with
// the keys of diffusion_policy; and the journal, which is episodes.jsonl while it runs: a kill
// loses no finished episode.
#pragma once

#include <filesystem>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_log.h"
#include "run/episode_record.h"
#include "run/planning.h"

namespace dp_bench::run {

/// One JSON object without a line end: episode, split, seed, score, success, n_steps, trace_hash,
/// failure_reason and video (null if there is none), metrics; n_stale_steps, n_plans,
/// n_late_plans, jerk_at_seams and jerk_elsewhere if not 0, course (the
/// fields of EpisodeCourse that are present), video_error if none could be recorded.
std::string EpisodeRow(const EpisodeRecord& record, std::span<const std::string> metric_names);

/// One line per record. Equal runs give equal bytes.
std::string EpisodesJsonl(const RunResult& result);

/// The inverse of EpisodesJsonl, except for the wall time, which is not in the file. Reads the
/// metrics of these names. Throws Error{kData} naming `origin` and the line that is not an
/// episode's row.
std::vector<EpisodeRecord> ParseEpisodes(std::string_view text, const std::string& origin,
                                         std::span<const std::string> metric_names = {});

/// Why videos are missing: "test seed 5, test seed 6: no video: disk full", one line per reason.
std::vector<std::string> MissingVideos(std::span<const EpisodeRecord> records);

/// The keys of EvalLogJson that are not of one episode, without run id and hash.
nlohmann::json SummaryLog(const RunResult& result, int n_selection_seeds);

/// For each split that ran: <split>/mean_score, success_rate, n_episodes, n_success, n_failed,
/// n_policy_faults and n_stale_steps if not 0, <split>/mean_<metric> over the episodes that have
/// the metric, and per seed <split>/sim_max_reward_<seed> and <split>/sim_video_<seed>. Keys are
/// sorted. test/n_selection_seeds: test seeds on which the training was evaluated, if any. With a
/// `run_id` (run/manifest.h) also the id and `episodes_hash`, the SHA-256 of EpisodesJsonl.
std::string EvalLogJson(const RunResult& result, int n_selection_seeds = 0,
                        const std::string& run_id = "", const std::string& episodes_hash = "");

/// Creates `folder` and writes both files, eval_log.json last: it marks the evaluation as finished.
/// Throws Error{kIo}.
void WriteEpisodeLog(const std::filesystem::path& folder, const RunResult& result,
                     int n_selection_seeds = 0, const std::string& run_id = "");

/// Writes all results of an evaluation into `folder`, whose manifest has the run's id: the two
/// files above, then latency.json. Throws Error{kIo}.
void WriteResults(const std::filesystem::path& folder, const RunResult& result,
                  const PolicyLatencySummary& latency);

/// The journal of a rank of mpirun; that of rank 0 is the only one of a single process.
std::filesystem::path JournalOf(const std::filesystem::path& folder, int rank);

/// The journals in a folder, of all ranks that ever worked there.
std::vector<std::filesystem::path> JournalsIn(const std::filesystem::path& folder);

/// The first line is {"run_id": "..."} if the run has an id (run/manifest.h). Rows are in the order
/// in which episodes end. Errors of the file system throw Error{kIo} with the path.
class EpisodeJournal {
 public:
  /// Continues the file or creates it. Truncates an incomplete last row. Throws Error{kData} for a
  /// complete row that cannot be read, and for a file of another run.
  EpisodeJournal(const std::filesystem::path& file, std::vector<std::string> metric_names,
                 const std::string& run_id = "");

  /// The episodes that the file already had.
  const std::vector<EpisodeRecord>& found() const { return found_; }

  /// The episodes of a file that stays as it is. Throws as the constructor.
  static std::vector<EpisodeRecord> ReadEpisodes(const std::filesystem::path& file,
                                                 const std::vector<std::string>& metric_names,
                                                 const std::string& run_id);

  /// Appends a row. It is durable when the call returns. Thread-safe.
  void Append(const EpisodeRecord& record);

 private:
  std::vector<std::string> metric_names_;
  std::vector<EpisodeRecord> found_;
  std::mutex mutex_;
  core::JsonLog log_;
};

}  // namespace dp_bench::run
