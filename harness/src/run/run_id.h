// Which files of a run folder belong together. manifest.json names the run ("run_id") and the
// SHA-256 of its config.json; eval_log.json names the run and the SHA-256 of its episodes.jsonl; so
// does the journal of an evaluation that is not finished. The id follows from what a run depends
// on: the same evaluation again, or one that was interrupted and continued, leaves the same bytes.
#pragma once

#include <filesystem>
#include <string>

namespace dp_bench::run {

inline constexpr const char* kRunIdKey = "run_id";
inline constexpr const char* kConfigHashKey = "config_sha256";      // of manifest.json
inline constexpr const char* kEpisodesHashKey = "episodes_sha256";  // of eval_log.json

/// `manifest`, a JSON object, with the id of its run and the SHA-256 of `config`, the text of
/// config.json. No part of the id is what changes no result: training.resume, so that a training
/// that is continued keeps it, and the number of ranks.
std::string WithRunId(const std::string& manifest, const std::string& config);

/// The manifest as it was before WithRunId.
std::string WithoutRunId(const std::string& manifest);

/// Writes the two files that a run begins with: manifest.json, which names the run and the config
/// that belongs to it, and then config.json. Throws Error{kIo}.
void WriteRunHead(const std::filesystem::path& folder, const std::string& manifest,
                  const std::string& config);

/// The text of manifest.json. Throws Error{kIo} when it cannot be read.
std::string ReadRunManifest(const std::filesystem::path& folder);

/// The id that a manifest or an eval_log names; empty when there is none (versions before 0.2) or
/// the text is not a JSON object.
std::string RunIdOf(const std::string& json);

}  // namespace dp_bench::run
