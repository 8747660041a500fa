// The contract of a dataset writer plugin: the counterpart of dataset.h, for `dp_bench dataset
// convert` and `dp_bench collect --format`. Does not include LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/dataset.h"
#include "dp_bench/export.h"

namespace dp_bench {

/// The episode that is written next.
struct EpisodeHead {
  std::int64_t n_steps = 0;  // at least 1
  std::string task;          // what the robot is told to do; formats without tasks leave it out
};

/// Writes episodes to one dataset. After a kill, a new writer with the same params continues; at
/// most the episodes of the last seconds are lost. Used by one thread.
///
/// Every writer reads these params: `path`, the file or folder to write; `source`, a text that says
/// where the episodes come from. Its constructor throws Error{kUsage} and changes nothing if `path`
/// holds something else than an unfinished dataset of this writer, or one of another source. It
/// throws Error{kShape} for keys that the format cannot hold.
class DPB_API DatasetWriter {
 public:
  DatasetWriter(const DatasetWriter&) = delete;
  DatasetWriter& operator=(const DatasetWriter&) = delete;
  virtual ~DatasetWriter();

  /// Complete episodes, including those of earlier writers.
  virtual std::int64_t n_episodes() const = 0;

  /// Begins the next episode. The one before must be complete.
  virtual void BeginEpisode(const EpisodeHead& head) = 0;

  /// Adds a step of the episode: one value per key of the spec, each KeySpec::ByteSize() bytes in
  /// storage order. After the last of its steps, the episode is complete.
  virtual void Append(std::span<const std::span<const std::byte>> values) = 0;

  /// Makes the dataset readable under its path. Only the destructor may be called afterwards.
  /// Throws Error{kUsage} if there is no episode.
  virtual void Finish() = 0;

  /// For the user, a line each: how images are stored, with or without loss, and what is left
  /// out. Not every writer has something to say.
  virtual std::vector<std::string> Notes() const;

 protected:
  DatasetWriter() = default;
};

}  // namespace dp_bench
