#include "rollout/episode_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "core/atomic_file.h"
#include "core/sha256.h"
#include "dp_bench/error.h"
#include "rollout/run_id.h"

namespace dp_bench {
namespace {

using Json = nlohmann::json;  // sorts keys; prints doubles so that they read back as the same bits

Json TextOrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json MetricsToJson(const EpisodeRecord& record, std::span<const std::string> names) {
  Json metrics = Json::object();
  for (std::size_t i = 0; i < record.metrics.size(); ++i) metrics[names[i]] = record.metrics[i];
  return metrics;
}

void AppendSplit(const RunResult& result, const std::string& split, Json* log) {
  const SplitSummary summary = Summarize(result.records, split);
  if (summary.n_episodes == 0) return;
  (*log)[split + "/mean_score"] = summary.mean_score;
  (*log)[split + "/success_rate"] = summary.success_rate;
  (*log)[split + "/n_episodes"] = summary.n_episodes;
  (*log)[split + "/n_success"] = summary.n_success;
  (*log)[split + "/n_failed"] = summary.n_failed;
  if (summary.n_stale_steps > 0) (*log)[split + "/n_stale_steps"] = summary.n_stale_steps;

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

std::string TextOrEmpty(const Json& row, const char* key) {
  const auto member = row.find(key);
  return member == row.end() || member->is_null() ? "" : member->get<std::string>();
}

Json CourseToJson(const EpisodeCourse& course) {
  Json row = {{"first_reward", course.first_reward},
              {"last_reward", course.last_reward},
              {"best_step", course.best_step},
              {"is_terminated", course.is_terminated}};
  if (course.lost_step) row["lost_step"] = *course.lost_step;
  if (!course.unseen_step) return row;
  row["unseen_step"] = *course.unseen_step;
  row["unseen_key"] = course.unseen_key;
  return row;
}

std::optional<int> StepOrNone(const Json& row, const char* key) {
  return row.contains(key) ? std::optional(row[key].get<int>()) : std::nullopt;
}

EpisodeCourse ToCourse(const Json& row) {
  return {.first_reward = row.at("first_reward").get<double>(),
          .last_reward = row.at("last_reward").get<double>(),
          .best_step = row.at("best_step").get<int>(),
          .lost_step = StepOrNone(row, "lost_step"),
          .is_terminated = row.at("is_terminated").get<bool>(),
          .unseen_step = StepOrNone(row, "unseen_step"),
          .unseen_key = TextOrEmpty(row, "unseen_key")};
}

EpisodeRecord ToRecord(const Json& row, std::span<const std::string> metric_names) {
  EpisodeRecord record;
  row.at("episode").get_to(record.episode);
  row.at("split").get_to(record.split);
  row.at("seed").get_to(record.seed);
  row.at("score").get_to(record.score);
  row.at("success").get_to(record.success);
  row.at("n_steps").get_to(record.n_steps);
  record.n_stale_steps = row.value("n_stale_steps", 0);
  record.trace_hash = TextOrEmpty(row, "trace_hash");
  record.video = TextOrEmpty(row, "video");
  record.video_error = TextOrEmpty(row, "video_error");
  const std::string reason = TextOrEmpty(row, "failure_reason");
  if (!reason.empty()) record.failure_reason = reason;
  if (row.contains("course")) record.course = ToCourse(row["course"]);

  const Json metrics = row.value("metrics", Json::object());
  if (metrics.empty()) return record;  // an episode without a step
  for (const std::string& name : metric_names) {
    record.metrics.push_back(metrics.at(name).get<double>());
  }
  return record;
}

// Text from plugins may hold bytes that are not UTF-8: those are replaced, the row is written.
std::string Dump(const Json& value, int indent) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace

std::string EpisodeRow(const EpisodeRecord& record, std::span<const std::string> metric_names) {
  Json row = {{"episode", record.episode},
              {"split", record.split},
              {"seed", record.seed},
              {"score", record.score},
              {"success", record.success},
              {"n_steps", record.n_steps},
              {"trace_hash", record.trace_hash},
              {"failure_reason", TextOrNull(record.failure_reason.value_or(""))},
              {"video", TextOrNull(record.video)},
              {"metrics", MetricsToJson(record, metric_names)}};
  if (record.n_stale_steps > 0) row["n_stale_steps"] = record.n_stale_steps;
  if (record.course) row["course"] = CourseToJson(*record.course);
  if (!record.video_error.empty()) row["video_error"] = record.video_error;
  return Dump(row, -1);
}

std::string EpisodesJsonl(const RunResult& result) {
  std::string text;
  for (const EpisodeRecord& record : result.records) {
    text += EpisodeRow(record, result.metric_names) + "\n";
  }
  return text;
}

std::vector<EpisodeRecord> ParseEpisodes(std::string_view text, const std::string& origin,
                                         std::span<const std::string> metric_names) {
  std::vector<EpisodeRecord> records;
  int line_number = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    ++line_number;
    if (line.empty()) continue;
    try {
      records.push_back(ToRecord(Json::parse(line), metric_names));
    } catch (const Json::exception& fault) {
      throw Error(ErrorCode::kData, fmt::format("{}:{}: not the row of an episode: {}", origin,
                                                line_number, fault.what()));
    }
  }
  return records;
}

std::string EvalLogJson(const RunResult& result, int n_selection_seeds, const std::string& run_id) {
  Json log = Json::object();
  AppendSplit(result, "train", &log);
  AppendSplit(result, "test", &log);
  if (n_selection_seeds > 0) log["test/n_selection_seeds"] = n_selection_seeds;
  if (!run_id.empty()) {
    const std::string episodes = EpisodesJsonl(result);
    log[kRunIdKey] = run_id;
    log[kEpisodesHashKey] = Sha256Hex(std::as_bytes(std::span(episodes)));
  }
  return Dump(log, 2) + "\n";
}

void WriteEpisodeLog(const std::filesystem::path& folder, const RunResult& result,
                     int n_selection_seeds, const std::string& run_id) {
  CreateFolders(folder);
  WriteFileAtomically(folder / "episodes.jsonl", EpisodesJsonl(result));
  WriteFileAtomically(folder / "eval_log.json", EvalLogJson(result, n_selection_seeds, run_id));
}

}  // namespace dp_bench
