// The two files that an evaluation leaves: episodes.jsonl, one row per episode, and eval_log.json
// with the keys of diffusion_policy.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rollout/run_result.h"

namespace dp_bench {

/// One JSON object without a line end: episode, split, seed, score, success, n_steps, trace_hash,
/// failure_reason and video (null when there is none), metrics; video_error where filming failed.
std::string EpisodeRow(const EpisodeRecord& record, std::span<const std::string> metric_names);

/// All rows, each with its line end. Equal runs give equal bytes.
std::string EpisodesJsonl(const RunResult& result);

/// The records of such rows; everything but the wall time is read back as it was, metrics by these
/// names. Throws Error{kData} naming `origin` and the line that is not the row of an episode.
std::vector<EpisodeRecord> ParseEpisodes(std::string_view text, const std::string& origin,
                                         std::span<const std::string> metric_names = {});

/// For each split that ran: <split>/mean_score, success_rate, n_episodes, n_success, n_failed, the
/// mean of every metric over the episodes that have it as <split>/mean_<metric>, and per seed
/// <split>/sim_max_reward_<seed> and <split>/sim_video_<seed>. Keys are sorted.
std::string EvalLogJson(const RunResult& result);

/// Writes both into `folder`, which is created. Throws Error{kIo}.
void WriteEpisodeLog(const std::filesystem::path& folder, const RunResult& result);

}  // namespace dp_bench
