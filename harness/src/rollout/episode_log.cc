#include "rollout/episode_log.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>
#include <system_error>

#include "core/atomic_file.h"
#include "dp_bench/error.h"

namespace dp_bench {
namespace {

using nlohmann::json;  // sorts keys; prints doubles so that they read back as the same bits

json TextOrNull(const std::string& text) { return text.empty() ? json(nullptr) : json(text); }

json MetricsToJson(const EpisodeRecord& record, std::span<const std::string> names) {
  json metrics = json::object();
  for (std::size_t i = 0; i < record.metrics.size(); ++i) metrics[names[i]] = record.metrics[i];
  return metrics;
}

void AppendSplit(const RunResult& result, const std::string& split, json* log) {
  const SplitSummary summary = Summarize(result.records, split);
  if (summary.n_episodes == 0) return;
  (*log)[split + "/mean_score"] = summary.mean_score;
  (*log)[split + "/success_rate"] = summary.success_rate;
  (*log)[split + "/n_episodes"] = summary.n_episodes;
  (*log)[split + "/n_success"] = summary.n_success;
  (*log)[split + "/n_failed"] = summary.n_failed;

  for (std::size_t i = 0; i < result.metric_names.size(); ++i) {
    double sum = 0.0;
    int count = 0;
    for (const EpisodeRecord& record : result.records) {
      if (record.split != split || record.metrics.empty()) continue;
      sum += record.metrics[i];
      ++count;
    }
    if (count > 0) (*log)[split + "/mean_" + result.metric_names[i]] = sum / count;
  }

  for (const EpisodeRecord& record : result.records) {
    if (record.split != split) continue;
    (*log)[fmt::format("{}/sim_max_reward_{}", split, record.seed)] = record.score;
    if (record.video.empty()) continue;
    (*log)[fmt::format("{}/sim_video_{}", split, record.seed)] = record.video;
  }
}

// Text from plugins may hold bytes that are not UTF-8: those are replaced, the row is written.
std::string Dump(const json& value, int indent) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
}

}  // namespace

std::string EpisodesJsonl(const RunResult& result) {
  std::string text;
  for (const EpisodeRecord& record : result.records) {
    json row = {{"episode", record.episode},
                {"split", record.split},
                {"seed", record.seed},
                {"score", record.score},
                {"success", record.success},
                {"n_steps", record.n_steps},
                {"trace_hash", record.trace_hash},
                {"failure_reason", TextOrNull(record.failure_reason.value_or(""))},
                {"video", TextOrNull(record.video)},
                {"metrics", MetricsToJson(record, result.metric_names)}};
    if (!record.video_error.empty()) row["video_error"] = record.video_error;
    text += Dump(row, -1) + "\n";
  }
  return text;
}

std::string EvalLogJson(const RunResult& result) {
  json log = json::object();
  AppendSplit(result, "train", &log);
  AppendSplit(result, "test", &log);
  return Dump(log, 2) + "\n";
}

void WriteEpisodeLog(const std::filesystem::path& folder, const RunResult& result) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw Error(ErrorCode::kIo, fmt::format("cannot create the folder {} for the results: {}",
                                            folder.string(), error.message()));
  }
  WriteFileAtomically(folder / "episodes.jsonl", EpisodesJsonl(result));
  WriteFileAtomically(folder / "eval_log.json", EvalLogJson(result));
}

}  // namespace dp_bench
