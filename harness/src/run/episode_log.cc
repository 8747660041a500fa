#include "run/episode_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "core/atomic_file.h"
#include "core/json.h"
#include "dp_bench/error.h"
#include "run/run_files.h"
#include "run/run_id.h"
#include "run/seed_use.h"

namespace dp_bench::run {
namespace {

using Json = nlohmann::json;  // sorts keys; doubles survive a round trip bit for bit

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

std::string TextOrEmpty(const core::JsonView& row, const char* key) {
  return row.GetOptional<std::string>(key).value_or("");
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

EpisodeCourse ToCourse(const core::JsonView& row) {
  return {.first_reward = row.Get<double>("first_reward"),
          .last_reward = row.Get<double>("last_reward"),
          .best_step = row.Get<int>("best_step"),
          .lost_step = row.GetOptional<int>("lost_step"),
          .is_terminated = row.Get<bool>("is_terminated"),
          .unseen_step = row.GetOptional<int>("unseen_step"),
          .unseen_key = TextOrEmpty(row, "unseen_key")};
}

EpisodeRecord ToRecord(const core::JsonView& row, std::span<const std::string> metric_names) {
  EpisodeRecord record;
  record.episode = row.Get<int>("episode");
  record.split = row.Get<std::string>("split");
  record.seed = row.Get<std::uint64_t>("seed");
  record.score = row.Get<double>("score");
  record.success = row.Get<bool>("success");
  record.n_steps = row.Get<int>("n_steps");
  record.n_stale_steps = row.GetOptional<int>("n_stale_steps").value_or(0);
  record.trace_hash = TextOrEmpty(row, "trace_hash");
  record.video = TextOrEmpty(row, "video");
  record.video_error = TextOrEmpty(row, "video_error");
  const std::string reason = TextOrEmpty(row, "failure_reason");
  if (!reason.empty()) record.failure_reason = reason;
  if (row.Has("course")) record.course = ToCourse(row.At("course"));

  if (metric_names.empty() || !row.Has("metrics")) return record;
  const core::JsonView metrics = row.At("metrics");
  if (metrics.json().empty()) return record;  // no step was executed
  for (const std::string& name : metric_names) {
    record.metrics.push_back(metrics.Get<double>(name));
  }
  return record;
}

// Text from plugins may contain bytes that are not UTF-8. They are replaced, so that the row is
// written.
std::string Dump(const Json& value, int indent) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;

std::string WholeRows(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return "";
  std::string text = core::ReadTextFile(file, kMaxFileBytes);
  text.resize(text.rfind('\n') + 1);  // npos + 1 is 0
  return text;
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
    const std::string what = fmt::format("{}:{}: not an episode's row", origin, line_number);
    const Json row = core::ParseJson(line, what);
    records.push_back(ToRecord(core::JsonView(row, what), metric_names));
  }
  return records;
}

std::string EvalLogJson(const RunResult& result, int n_selection_seeds, const std::string& run_id) {
  Json log = Json::object();
  AppendSplit(result, "train", &log);
  AppendSplit(result, "test", &log);
  if (n_selection_seeds > 0) log["test/n_selection_seeds"] = n_selection_seeds;
  if (!run_id.empty()) {
    log[kRunIdKey] = run_id;
    log[kEpisodesHashKey] = HashOfText(EpisodesJsonl(result));
  }
  return Dump(log, 2) + "\n";
}

std::vector<std::string> MissingFilms(std::span<const EpisodeRecord> records) {
  std::map<std::string, std::vector<std::string>> episodes;
  for (const EpisodeRecord& record : records) {
    if (record.video_error.empty()) continue;
    episodes[record.video_error].push_back(fmt::format("{} seed {}", record.split, record.seed));
  }
  std::vector<std::string> lines;
  for (const auto& [reason, names] : episodes) {
    lines.push_back(fmt::format("{}: no video: {}", fmt::join(names, ", "), reason));
  }
  return lines;
}

void WriteEpisodeLog(const std::filesystem::path& folder, const RunResult& result,
                     int n_selection_seeds, const std::string& run_id) {
  core::CreateFolders(folder);
  core::WriteFileAtomically(folder / kEpisodesFile, EpisodesJsonl(result));
  core::WriteFileAtomically(folder / kEvalLogFile, EvalLogJson(result, n_selection_seeds, run_id));
}

void WriteResults(const std::filesystem::path& folder, const RunResult& result,
                  const PlanningRecord& planning) {
  const std::string manifest = ReadRunManifest(folder);
  const std::optional<SeedUse> seeds = SeedUseOf(manifest);
  WriteEpisodeLog(folder, result, seeds ? seeds->n_shared() : 0, RunIdOf(manifest));
  WritePlanning(folder, planning);
}

EpisodeJournal::Content EpisodeJournal::Read(const std::filesystem::path& file,
                                             const std::string& run_id) {
  Content content = {.head = "", .rows = WholeRows(file)};
  const std::size_t line = content.rows.find('\n');
  if (line == std::string::npos) return content;
  const std::string found = RunIdOf(content.rows.substr(0, line));
  if (found.empty()) return content;  // written before version 0.2
  if (found != run_id) {
    throw Error(
        ErrorCode::kData,
        fmt::format("'{}' has episodes of run {}, but the manifest.json next to it is of {}. "
                    "Put back the files that belong together, or start over in another "
                    "--output folder.",
                    file.string(), found,
                    run_id.empty() ? "a run without an id" : "run " + run_id));
  }
  content.head = content.rows.substr(0, line + 1);
  content.rows.erase(0, line + 1);
  return content;
}

EpisodeJournal::EpisodeJournal(const std::filesystem::path& file,
                               std::vector<std::string> metric_names, const std::string& run_id)
    : EpisodeJournal(file, std::move(metric_names), run_id, Read(file, run_id)) {}

EpisodeJournal::EpisodeJournal(const std::filesystem::path& file,
                               std::vector<std::string> metric_names, const std::string& run_id,
                               const Content& content)
    : metric_names_(std::move(metric_names)),
      found_(Parse(file, metric_names_, content)),
      log_(file, static_cast<std::int64_t>(content.head.size() + content.rows.size())) {
  if (run_id.empty() || log_.position() > 0) return;
  log_.Append(nlohmann::json{{kRunIdKey, run_id}}.dump());
  log_.Sync();
}

std::vector<EpisodeRecord> EpisodeJournal::Parse(const std::filesystem::path& file,
                                                 const std::vector<std::string>& metric_names,
                                                 const Content& content) {
  // an empty line for the head keeps line numbers in messages right
  return ParseEpisodes((content.head.empty() ? "" : "\n") + content.rows, file.string(),
                       metric_names);
}

std::vector<EpisodeRecord> EpisodeJournal::ReadEpisodes(
    const std::filesystem::path& file, const std::vector<std::string>& metric_names,
    const std::string& run_id) {
  return Parse(file, metric_names, Read(file, run_id));
}

void EpisodeJournal::Append(const EpisodeRecord& record) {
  const std::lock_guard lock(mutex_);
  log_.Append(EpisodeRow(record, metric_names_));
  log_.Sync();
}

}  // namespace dp_bench::run
