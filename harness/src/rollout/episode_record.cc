#include "rollout/episode_record.h"

#include <string_view>

#include "core/sha256.h"

namespace dp_bench {
namespace {

// With its length in front, so that neighbouring texts cannot trade characters.
void UpdateText(Sha256* hash, std::string_view text) {
  hash->Update(text.size());
  hash->Update(std::as_bytes(std::span(text)));
}

}  // namespace

std::string HashRecords(std::span<const EpisodeRecord> records) {
  Sha256 hash;
  for (const EpisodeRecord& record : records) {
    hash.Update(record.episode);
    UpdateText(&hash, record.split);
    hash.Update(record.seed);
    hash.Update(record.score);
    hash.Update(record.success);
    hash.Update(record.n_steps);
    UpdateText(&hash, record.trace_hash);
    hash.Update(record.metrics.size());
    for (const double value : record.metrics) hash.Update(value);
    hash.Update(record.failure_reason.has_value());
    UpdateText(&hash, record.failure_reason.value_or(""));
  }
  return hash.HexDigest();
}

SplitSummary Summarize(std::span<const EpisodeRecord> records, std::string_view split) {
  SplitSummary summary;
  double score_sum = 0.0;
  for (const EpisodeRecord& record : records) {
    if (record.split != split) continue;
    ++summary.n_episodes;
    summary.n_success += record.success ? 1 : 0;
    summary.n_failed += record.failure_reason.has_value() ? 1 : 0;
    summary.n_steps += record.n_steps;
    summary.n_stale_steps += record.n_stale_steps;
    score_sum += record.score;
  }
  if (summary.n_episodes > 0) {
    summary.mean_score = score_sum / summary.n_episodes;
    summary.success_rate = static_cast<double>(summary.n_success) / summary.n_episodes;
  }
  return summary;
}

}  // namespace dp_bench
