// Run ids, which show whether files belong to one run. manifest.json has the id ("run_id") and the
// SHA-256 of config.json. eval_log.json has the id and the SHA-256 of episodes.jsonl. The journal
// of an unfinished evaluation has the id. The id depends only on what the results depend on:
// running the same evaluation again, or resuming it, gives the same files.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace dp_bench::run {

inline constexpr const char* kRunIdKey = "run_id";
inline constexpr const char* kConfigHashKey = "config_sha256";      // of manifest.json
inline constexpr const char* kEpisodesHashKey = "episodes_sha256";  // of eval_log.json

/// Adds the run's id and the SHA-256 of `config`, the text of config.json, to `manifest`, a JSON
/// object. The id does not depend on training.resume, so that a resumed training keeps it, nor on
/// the number of ranks.
std::string WithRunId(const std::string& manifest, const std::string& config);

/// The inverse of WithRunId.
std::string WithoutRunId(const std::string& manifest);

/// Writes the first two files of a run: manifest.json with the run's id and the hash of the config,
/// then config.json. Throws Error{kIo}.
void WriteRunHead(const std::filesystem::path& folder, const std::string& manifest,
                  const std::string& config);

/// The text of manifest.json. Throws Error{kIo} if it cannot be read.
std::string ReadRunManifest(const std::filesystem::path& folder);

/// The text at a JSON pointer, "/checkpoint/sha256"; empty if there is none.
std::string TextAt(const nlohmann::json& json, const std::string& pointer);

/// The SHA-256 of a text.
std::string HashOfText(std::string_view text);

/// The id in a manifest or an eval_log; empty if there is none (before version 0.2) or the text is
/// not a JSON object.
std::string RunIdOf(const std::string& json);

}  // namespace dp_bench::run
