// episodes.jsonl while an evaluation runs: no episode that has ended is lost to a kill.
#pragma once

#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "core/json_log.h"
#include "run/episode_record.h"

namespace dp_bench::run {

/// The first line names the run, {"run_id": "..."}, where it has an id (run/run_id.h). Rows lie
/// in the order in which episodes end. Every fault of the file system throws Error{kIo}
/// with the path.
class EpisodeJournal {
 public:
  /// Continues the file, or creates it. What a kill left of the last row is cut off; Error{kData}
  /// for whole rows that cannot be read, and for a file that names another run.
  EpisodeJournal(const std::filesystem::path& file, std::vector<std::string> metric_names,
                 const std::string& run_id = "");

  /// The episodes that were there.
  const std::vector<EpisodeRecord>& found() const { return found_; }

  /// Appends a row, durable when the call returns. Any thread.
  void Append(const EpisodeRecord& record);

 private:
  struct Content {
    std::string head;  // the line that names the run; may be missing
    std::string rows;  // whole ones
  };
  static Content Read(const std::filesystem::path& file, const std::string& run_id);

  EpisodeJournal(const std::filesystem::path& file, std::vector<std::string> metric_names,
                 const std::string& run_id, const Content& content);

  std::vector<std::string> metric_names_;
  std::vector<EpisodeRecord> found_;
  std::mutex mutex_;
  core::JsonLog log_;
};

}  // namespace dp_bench::run
