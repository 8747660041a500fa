// The two files that an evaluation leaves: episodes.jsonl, one row per episode, and eval_log.json
// with the keys of diffusion_policy.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "run/planning.h"
#include "run/run_result.h"

namespace dp_bench::run {

/// One JSON object without a line end: episode, split, seed, score, success, n_steps, trace_hash,
/// failure_reason and video (null when there is none), metrics; n_stale_steps where there were any,
/// course (EpisodeCourse by the names of its fields, those that are absent left out), video_error
/// where filming failed.
std::string EpisodeRow(const EpisodeRecord& record, std::span<const std::string> metric_names);

/// All rows, each with its line end. Equal runs give equal bytes.
std::string EpisodesJsonl(const RunResult& result);

/// The records of such rows; everything but the wall time is read back as it was, metrics by these
/// names. Throws Error{kData} naming `origin` and the line that is not the row of an episode.
std::vector<EpisodeRecord> ParseEpisodes(std::string_view text, const std::string& origin,
                                         std::span<const std::string> metric_names = {});

/// For each split that ran: <split>/mean_score, success_rate, n_episodes, n_success, n_failed,
/// n_stale_steps where there were any, the
/// mean of every metric over the episodes that have it as <split>/mean_<metric>, and per seed
/// <split>/sim_max_reward_<seed> and <split>/sim_video_<seed>. Keys are sorted. Where the training
/// was evaluated on some of the test seeds, their number as test/n_selection_seeds. With a `run_id`
/// (run/run_id.h), that and the SHA-256 of EpisodesJsonl.
std::string EvalLogJson(const RunResult& result, int n_selection_seeds = 0,
                        const std::string& run_id = "");

/// Writes both into `folder`, which is created; eval_log.json last: an evaluation is finished when
/// it is there. Throws Error{kIo}.
void WriteEpisodeLog(const std::filesystem::path& folder, const RunResult& result,
                     int n_selection_seeds = 0, const std::string& run_id = "");

/// All that an evaluation leaves in `folder`, whose manifest names the run: the two files, then how
/// the policy planned (run/planning.h). Throws Error{kIo}.
void WriteResults(const std::filesystem::path& folder, const RunResult& result,
                  const PlanningRecord& planning);

}  // namespace dp_bench::run
