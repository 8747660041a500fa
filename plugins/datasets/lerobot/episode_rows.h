// The episodes of a LeRobot dataset that are read, and the rows of its Parquet files: numbers, and
// where the images are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/lerobot/camera.h"
#include "data/lerobot/metadata.h"
#include "data/reader/chunk_cache.h"

namespace dp_bench::lerobot {

class ParquetFile;
struct Rows;

/// The episodes with some tasks, one after another.
class EpisodeSelection {
 public:
  /// Episodes with one of these tasks, all if there are none. Throws Error{kConfig} for a task that
  /// the dataset does not have, and if no episode is left.
  EpisodeSelection(const Metadata& metadata, const std::vector<std::string>& tasks);

  const std::vector<std::int64_t>& episodes() const { return episodes_; }
  std::span<const std::int64_t> ends() const { return ends_; }  // of these, in steps
  std::int64_t n_steps() const { return ends_.back(); }

  /// The first step of an episode; none if it is not read.
  std::optional<std::int64_t> BeginOf(std::int64_t episode) const;
  FrameId FrameAt(std::int64_t step) const;

 private:
  std::vector<std::int64_t> episodes_;
  std::vector<std::int64_t> ends_;
  std::map<std::int64_t, std::int64_t> begins_;  // by episode
};

/// All numbers of a feature, float32 [steps, n].
struct Numbers {
  std::size_t n = 0;
  reader::PageBuffer buffer;
};

/// What the rows of an episode say that it is about.
struct RowTask {
  std::optional<std::int64_t> index;  // of the first frame; none: the rows do not say it
  bool changes = false;               // within the episode
};

/// Reads the rows of the selected episodes.
class RowReader {
 public:
  /// Times may be `tolerance` [s] off. Each file is decoded in at most `max_bytes`. The references
  /// must outlive the reader.
  RowReader(const Metadata& metadata, const EpisodeSelection& selection, double tolerance,
            std::int64_t max_bytes, RowTimes* times);

  /// Fills the buffers of `numbers`, by feature, `tasks`, by episode, and, if `with_images`,
  /// `images`. Throws Error{kData} or Error{kIo} naming file, episode and frame: a frame that is
  /// missing, occurs twice or is elsewhere, a time that is not frame / fps, a task that is in no
  /// table. Afterwards, `times` are complete.
  void Read(std::map<std::string, Numbers>* numbers, bool with_images, ImageRows* images,
            std::vector<RowTask>* tasks);

 private:
  void RequireEnoughRows();
  void RequireEveryFrame(const std::string& reason) const;
  void ReadFile(const FileNumber& number, std::map<std::string, Numbers>* numbers,
                ImageRows* images, std::vector<RowTask>* tasks);
  void ReadTasks(const std::string& where, ParquetFile& file, const Rows& group,
                 const std::vector<std::int64_t>& steps, std::vector<RowTask>* tasks);
  void StateTimes();
  std::vector<std::int64_t> StepsOfRows(const FileNumber& number, ParquetFile& file,
                                        const Rows& rows);
  std::int64_t StepOfRow(const FileNumber& number, std::int64_t episode, std::int64_t frame,
                         double time);

  const Metadata& metadata_;
  const EpisodeSelection& selection_;
  double tolerance_;
  std::int64_t max_bytes_;
  RowTimes* times_;
  bool has_enough_rows_ = false;   // for the frames that meta/ promises
  std::vector<FileNumber> files_;  // of the selected episodes
  std::vector<bool> is_filled_;    // by step
};

}  // namespace dp_bench::lerobot
