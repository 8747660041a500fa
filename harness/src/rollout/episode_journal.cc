#include "rollout/episode_journal.h"

#include <utility>

#include "core/atomic_file.h"
#include "rollout/episode_log.h"

namespace dp_bench {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;

std::string WholeRows(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return "";
  std::string text = ReadTextFile(file, kMaxFileBytes);
  text.resize(text.rfind('\n') + 1);  // npos + 1 is 0
  return text;
}

}  // namespace

EpisodeJournal::EpisodeJournal(const std::filesystem::path& file,
                               std::vector<std::string> metric_names)
    : EpisodeJournal(file, std::move(metric_names), WholeRows(file)) {}

EpisodeJournal::EpisodeJournal(const std::filesystem::path& file,
                               std::vector<std::string> metric_names, const std::string& whole_rows)
    : metric_names_(std::move(metric_names)),
      found_(ParseEpisodes(whole_rows, file.string(), metric_names_)),
      log_(file, static_cast<std::int64_t>(whole_rows.size())) {}

void EpisodeJournal::Append(const EpisodeRecord& record) {
  const std::lock_guard lock(mutex_);
  log_.Append(EpisodeRow(record, metric_names_));
  log_.Sync();
}

}  // namespace dp_bench
