// episodes.jsonl while an evaluation runs. A kill loses no finished episode.
#pragma once

#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "core/json_log.h"
#include "run/episode_record.h"

namespace dp_bench::run {

/// The first line is {"run_id": "..."} if the run has an id (run/run_id.h). Rows are in the order
/// in which episodes end. Errors of the file system throw Error{kIo} with the path.
class EpisodeJournal {
 public:
  /// Continues the file or creates it. Truncates an incomplete last row. Throws Error{kData} for a
  /// complete row that cannot be read, and for a file of another run.
  EpisodeJournal(const std::filesystem::path& file, std::vector<std::string> metric_names,
                 const std::string& run_id = "");

  /// The episodes that the file already had.
  const std::vector<EpisodeRecord>& found() const { return found_; }

  /// The episodes of a file that stays as it is. Throws as the constructor.
  static std::vector<EpisodeRecord> ReadEpisodes(const std::filesystem::path& file,
                                                 const std::vector<std::string>& metric_names,
                                                 const std::string& run_id);

  /// Appends a row. It is durable when the call returns. Thread-safe.
  void Append(const EpisodeRecord& record);

 private:
  struct Content {
    std::string head;  // the line that names the run; may be missing
    std::string rows;  // complete ones
  };
  static Content Read(const std::filesystem::path& file, const std::string& run_id);
  static std::vector<EpisodeRecord> Parse(const std::filesystem::path& file,
                                          const std::vector<std::string>& metric_names,
                                          const Content& content);

  EpisodeJournal(const std::filesystem::path& file, std::vector<std::string> metric_names,
                 const std::string& run_id, const Content& content);

  std::vector<std::string> metric_names_;
  std::vector<EpisodeRecord> found_;
  std::mutex mutex_;
  core::JsonLog log_;
};

}  // namespace dp_bench::run
