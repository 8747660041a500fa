// File names in a run folder; docs/architecture.md describes the files.
#pragma once

#include <string_view>

namespace dp_bench::run {

inline constexpr std::string_view kConfigFile = "config.json";      // a checkpoint has one, too
inline constexpr std::string_view kManifestFile = "manifest.json";  // a checkpoint has one, too
inline constexpr std::string_view kStateFile = "state.json";        // of a checkpoint
inline constexpr std::string_view kTrainingLogFile = "logs.json.txt";
inline constexpr std::string_view kEpisodesFile = "episodes.jsonl";
inline constexpr std::string_view kJournalFile = "episodes.partial.jsonl";  // of rank 0
inline constexpr std::string_view kJournalPrefix = "episodes.partial";      // of those of all ranks
inline constexpr std::string_view kTicketFile = "episodes.next";  // the next one to start, of ranks
inline constexpr std::string_view kShardFile = "shard.json";      // in the folder of a shard
inline constexpr std::string_view kEvalLogFile = "eval_log.json";
inline constexpr std::string_view kCostFile = "cost.json";
inline constexpr std::string_view kLatencyFile = "latency.json";
inline constexpr std::string_view kEffectsFile = "perturbations.json";
inline constexpr std::string_view kVerificationFile = "verification.json";
inline constexpr std::string_view kDelaysFile = "delays.json";
inline constexpr std::string_view kDelaysPage = "delays.html";
inline constexpr std::string_view kReportFile = "report.html";
inline constexpr std::string_view kMultiRunFile = "multi_run.json";  // next to the seeds' folders
inline constexpr std::string_view kCheckpointsFolder = "checkpoints";
inline constexpr std::string_view kMediaFolder = "media";
inline constexpr std::string_view kRecordingFolder = "recording";  // of eval --record-dataset
inline constexpr std::string_view kRecordingOptionsFile = "recording_options.json";  // in it
inline constexpr std::string_view kArmsFolder = "perturbations";
inline constexpr std::string_view kPlansFolder = "plans";
inline constexpr std::string_view kReplayFolder = "replay";

}  // namespace dp_bench::run
