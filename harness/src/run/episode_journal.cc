#include "run/episode_journal.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "core/atomic_file.h"
#include "dp_bench/error.h"
#include "run/episode_log.h"
#include "run/run_id.h"

namespace dp_bench::run {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;

std::string WholeRows(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return "";
  std::string text = core::ReadTextFile(file, kMaxFileBytes);
  text.resize(text.rfind('\n') + 1);  // npos + 1 is 0
  return text;
}

}  // namespace

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
