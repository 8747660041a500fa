#include "run/episode_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/sha256.h"
#include "core/thread_pool.h"
#include "run/manifest.h"
#include "run/run_files.h"

namespace dp_bench::run {
namespace {

using Json = nlohmann::json;  // sorts keys; doubles survive a round trip bit for bit

// Text from plugins may contain bytes that are not UTF-8. They are replaced, so that the row is
// written.
std::string Dump(const Json& value, int indent) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

Json MetricsToJson(const EpisodeRecord& record, std::span<const std::string> names) {
  Json metrics = Json::object();
  for (std::size_t i = 0; i < record.metrics.size(); ++i) metrics[names[i]] = record.metrics[i];
  return metrics;
}

void AppendSummary(const RunResult& result, const std::string& split, Json* log) {
  const SplitSummary summary = Summarize(result.records, split);
  if (summary.n_episodes == 0) return;
  (*log)[split + "/mean_score"] = summary.mean_score;
  (*log)[split + "/success_rate"] = summary.success_rate;
  (*log)[split + "/n_episodes"] = summary.n_episodes;
  (*log)[split + "/n_success"] = summary.n_success;
  (*log)[split + "/n_failed"] = summary.n_failed;
  if (summary.n_policy_faults > 0) (*log)[split + "/n_policy_faults"] = summary.n_policy_faults;
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
}

// A key of the log and its value as JSON.
using LogEntry = std::pair<std::string, std::string>;

// A million episodes have two million keys: as a tree of JSON they would take more memory than the
// episodes.
void AppendEpisodes(const RunResult& result, std::vector<LogEntry>* log) {
  for (const EpisodeRecord& record : result.records) {
    log->emplace_back(fmt::format("{}/sim_max_reward_{}", record.split, record.seed),
                      Json(record.score).dump());
    if (record.video.empty()) continue;
    log->emplace_back(fmt::format("{}/sim_video_{}", record.split, record.seed),
                      Dump(Json(record.video), -1));
  }
}

void VisitCourse(const core::JsonFields& fields, EpisodeCourse* c) {
  fields("first_reward", &c->first_reward);
  fields("last_reward", &c->last_reward);
  fields("best_step", &c->best_step);
  fields.IfSet("best_reward", &c->best_reward);
  fields("is_terminated", &c->is_terminated);
  fields.IfSet("lost_step", &c->lost_step);
  fields.IfSet("unseen_step", &c->unseen_step);
  fields.IfSet("unseen_key", &c->unseen_key);
  fields.IfSet("first_obs", &c->first_obs);
}

void VisitSuccess(const core::JsonFields& fields, SuccessSteps* c) {
  fields("first", &c->first);
  fields("longest", &c->longest);
  fields("at_end", &c->at_end);
}

// All but the metrics, whose names are not in the record.
void VisitRecord(const core::JsonFields& fields, EpisodeRecord* c) {
  fields("episode", &c->episode);
  fields("split", &c->split);
  fields("seed", &c->seed);
  fields("score", &c->score);
  fields("success", &c->success);
  fields("n_steps", &c->n_steps);
  fields.IfSet("n_stale_steps", &c->n_stale_steps);
  fields.IfSet("n_plans", &c->n_plans);
  fields.IfSet("n_late_plans", &c->n_late_plans);
  fields.IfSet("jerk_at_seams", &c->jerk_at_seams);
  fields.IfSet("jerk_elsewhere", &c->jerk_elsewhere);
  fields.Lenient("trace_hash", &c->trace_hash);
  fields("failure_reason", &c->failure_reason);
  std::optional<std::string> video;  // null if there is none
  if (!c->video.empty()) video = c->video;
  fields("video", &video);
  c->video = video.value_or("");
  fields.IfSet("video_error", &c->video_error);
}

EpisodeRecord ToRecord(const core::JsonView& row, std::span<const std::string> metric_names) {
  auto record = core::FromFields<EpisodeRecord>(row, VisitRecord);
  if (row.Has("course")) {
    record.course = core::FromFields<EpisodeCourse>(row.At("course"), VisitCourse);
  }
  if (row.Has("success_steps")) {
    record.success_steps = core::FromFields<SuccessSteps>(row.At("success_steps"), VisitSuccess);
  }
  if (metric_names.empty() || !row.Has("metrics")) return record;
  const core::JsonView metrics = row.At("metrics");
  if (metrics.json().empty()) return record;  // no step was executed
  for (const std::string& name : metric_names) {
    record.metrics.push_back(metrics.Get<double>(name));
  }
  return record;
}

constexpr std::size_t kMaxFileBytes = std::size_t{512} << 20;

constexpr std::size_t kRowsAtOnce = 10000;

std::string Rows(std::span<const EpisodeRecord> records, const RunResult& result) {
  std::string text;
  for (const EpisodeRecord& record : records) {
    text += EpisodeRow(record, result.metric_names) + "\n";
  }
  return text;
}

}  // namespace

std::string EpisodeRow(const EpisodeRecord& record, std::span<const std::string> metric_names) {
  Json row = core::ToFields(record, VisitRecord);
  row["metrics"] = MetricsToJson(record, metric_names);
  if (record.course) row["course"] = core::ToFields(*record.course, VisitCourse);
  if (record.success_steps.first > 0) {
    row["success_steps"] = core::ToFields(record.success_steps, VisitSuccess);
  }
  return Dump(row, -1);
}

std::string EpisodesJsonl(const RunResult& result) { return Rows(result.records, result); }

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

Json SummaryLog(const RunResult& result, int n_selection_seeds) {
  Json log = Json::object();
  AppendSummary(result, "train", &log);
  AppendSummary(result, "test", &log);
  if (n_selection_seeds > 0) log["test/n_selection_seeds"] = n_selection_seeds;
  return log;
}

std::string EvalLogJson(const RunResult& result, int n_selection_seeds, const std::string& run_id,
                        const std::string& episodes_hash) {
  Json summary = SummaryLog(result, n_selection_seeds);
  if (!run_id.empty()) {
    summary[kRunIdKey] = run_id;
    summary[kEpisodesHashKey] = episodes_hash;
  }
  std::vector<LogEntry> log;
  for (const auto& [key, value] : summary.items()) log.emplace_back(key, Dump(value, -1));
  AppendEpisodes(result, &log);
  std::ranges::sort(log);
  std::string text = "{";
  for (const auto& [key, value] : log) {
    text += fmt::format("{}\n  {}: {}", text.size() > 1 ? "," : "", Dump(Json(key), -1), value);
  }
  return text + (log.empty() ? "}\n" : "\n}\n");
}

std::vector<std::string> MissingVideos(std::span<const EpisodeRecord> records) {
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
  core::AtomicFile episodes(folder / kEpisodesFile);
  core::Sha256 hash;
  const std::span<const EpisodeRecord> all(result.records);
  core::ThreadPool pool(all.size() > kRowsAtOnce ? 0 : 1);
  std::deque<std::future<std::string>> rows;  // of the next records, in their order
  for (std::size_t begin = 0; begin < all.size() || !rows.empty();) {
    while (begin < all.size() && rows.size() < 2 * static_cast<std::size_t>(pool.size())) {
      const auto some = all.subspan(begin, std::min(kRowsAtOnce, all.size() - begin));
      rows.push_back(core::RunOn(pool, [some, &result] { return Rows(some, result); }));
      begin += some.size();
    }
    const std::string text = rows.front().get();
    rows.pop_front();
    episodes.Write(std::string_view(text));
    hash.Update(std::as_bytes(std::span(text)));
  }
  episodes.Commit();
  core::WriteFileAtomically(folder / kEvalLogFile,
                            EvalLogJson(result, n_selection_seeds, run_id, hash.HexDigest()));
}

void WriteResults(const std::filesystem::path& folder, const RunResult& result,
                  const PolicyLatencySummary& latency) {
  const std::string manifest = ReadRunManifest(folder);
  const std::optional<SeedUse> seeds = SeedUseOf(manifest);
  WriteEpisodeLog(folder, result, seeds ? seeds->n_shared() : 0, RunIdOf(manifest));
  WriteLatency(folder, latency);
}

std::filesystem::path JournalOf(const std::filesystem::path& folder, int rank) {
  if (rank == 0) return folder / kJournalFile;
  return folder / fmt::format("{}.rank{}.jsonl", kJournalPrefix, rank);
}

std::vector<std::filesystem::path> JournalsIn(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> journals;
  if (!std::filesystem::is_directory(folder)) return journals;
  for (const std::filesystem::path& path : core::EntriesOf(folder)) {
    const std::string name = path.filename().string();
    if (name.starts_with(kJournalPrefix) && name.ends_with(".jsonl")) journals.push_back(path);
  }
  std::ranges::sort(journals);
  return journals;
}

std::vector<EpisodeRecord> EpisodeJournal::ReadEpisodes(
    const std::filesystem::path& file, const std::vector<std::string>& metric_names,
    const std::string& run_id) {
  std::string rows = core::ReadWholeLines(file, kMaxFileBytes);
  const std::size_t head = std::min(rows.find('\n'), rows.size());
  const std::string found = RunIdOf(rows.substr(0, head));
  if (!found.empty() && found != run_id) {
    throw DataError(
        "'{}' has episodes of run {}, but the manifest.json next to it is of {}. Put back the "
        "files that belong together, or start over in another --output folder.",
        file.string(), found, run_id.empty() ? "a run without an id" : "run " + run_id);
  }
  // the line stays, empty, so that messages have the right numbers of the others
  if (!found.empty()) rows.erase(0, head);
  return ParseEpisodes(rows, file.string(), metric_names);
}

EpisodeJournal::EpisodeJournal(const std::filesystem::path& file,
                               std::vector<std::string> metric_names, const std::string& run_id)
    : metric_names_(std::move(metric_names)),
      found_(ReadEpisodes(file, metric_names_, run_id)),
      log_(file, std::ssize(core::ReadWholeLines(file, kMaxFileBytes))) {
  if (run_id.empty() || log_.position() > 0) return;
  log_.Append(nlohmann::json{{kRunIdKey, run_id}}.dump());
  log_.Sync();
}

void EpisodeJournal::Append(const EpisodeRecord& record) {
  const std::lock_guard lock(mutex_);
  log_.Append(EpisodeRow(record, metric_names_));
  log_.Sync();
}

}  // namespace dp_bench::run
