// What two runs of the same episodes must have in common.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/sha256.h"
#include "run/episode_record.h"

namespace dp_bench::run {

// Hashes the length too, so that moving characters between neighbouring texts changes the hash.
inline void UpdateText(core::Sha256* hash, std::string_view text) {
  hash->Update(text.size());
  hash->Update(std::as_bytes(std::span(text)));
}

/// SHA-256 of everything that a re-run must reproduce: all except the video and the wall time, and
/// of the course only what the trace hash covers.
inline std::string HashRecords(std::span<const EpisodeRecord> records) {
  core::Sha256 hash;
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

}  // namespace dp_bench::run
