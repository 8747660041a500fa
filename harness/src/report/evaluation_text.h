// The results of an evaluation for the terminal, and as what their templates and report.html show.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "run/episode_record.h"
#include "run/perturbation_effects.h"
#include "run/planning.h"
#include "run/run_folder.h"

namespace dp_bench::report {

/// One row per split (success rate with 95 % Wilson interval and counts, mean score, failed
/// episodes), then every failed episode with its reason.
std::string ResultTable(const run::RunResult& result);

/// One row for the control and for each arm: success rate, mean score, their differences from the
/// control with paired 95 % intervals, and the number of episodes that changed. Then the arms'
/// notes.
std::string EffectsTable(const run::PerturbationEffects& effects);

/// Percentiles of chunks and stages, and the share of late chunks.
std::string LatencyTable(const run::PolicyLatencySummary& latency);

/// The clusters of each split with their signs; empty if all episodes succeeded.
std::string FailureText(std::span<const run::EpisodeRecord> records);

/// "84.2 % without 3 policy faults": the success rate of the episodes in which the policy gave
/// actions. Empty if it always did, or never.
std::string WithoutFaultsText(const run::SplitSummary& summary);

/// {split, rate, low, high, n, n_success, n_failed, mean_score, n_steps, n_stale_steps, over_time}
nlohmann::json SplitJson(std::span<const run::EpisodeRecord> records, std::string_view split);

/// {arms: [{name, folder, rate_effect, ...}], arm_notes}
nlohmann::json EffectsJson(const run::PerturbationEffects& effects);

/// {control_hz, deadline_ms, tables: [{title, share_late, rows: [{name, n, p50_ms, ...}]}]}
nlohmann::json LatencyJson(const run::PolicyLatencySummary& latency);

/// The command that records the video of an episode.
std::string ReplayCommand(const std::string& run_path, int episode);

/// The clusters of a split: [{name, meaning, n, score, signs: [{when, text}], note, seeds: [{seed,
/// href}], commands}]. `commands` record the videos that `run_path` lacks.
nlohmann::json FailuresJson(std::span<const run::EpisodeRecord> records, std::string_view split,
                            const std::string& run_path);

}  // namespace dp_bench::report
