#include "episode_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>

#include "data/lerobot/parquet_file.h"
#include "dp_bench/error.h"

namespace dp_bench::lerobot {

EpisodeSelection::EpisodeSelection(const Metadata& metadata,
                                   const std::vector<std::string>& tasks) {
  std::vector<std::string> known;
  for (const auto& [index, text] : metadata.tasks) known.push_back(text);
  for (const std::string& task : tasks) {
    if (std::ranges::find(known, task) == known.end()) {
      throw Error(ErrorCode::kConfig,
                  fmt::format("dataset.params.tasks: {} has no task '{}'; its tasks are: {}",
                              metadata.root.string(), task, fmt::join(known, "; ")));
    }
  }
  std::int64_t n_steps = 0;
  for (std::size_t i = 0; i < metadata.episodes.size(); ++i) {
    const Episode& episode = metadata.episodes[i];
    const bool is_selected =
        tasks.empty() || std::ranges::any_of(episode.tasks, [&](const std::string& task) {
          return std::ranges::find(tasks, task) != tasks.end();
        });
    if (!is_selected) continue;
    begins_[static_cast<std::int64_t>(i)] = n_steps;
    episodes_.push_back(static_cast<std::int64_t>(i));
    ends_.push_back(n_steps += episode.length);
  }
  if (episodes_.empty()) {
    throw Error(ErrorCode::kConfig,
                fmt::format("dataset.params.tasks: no episode of {} has one of these tasks: {}",
                            metadata.root.string(), fmt::join(tasks, "; ")));
  }
}

std::optional<std::int64_t> EpisodeSelection::BeginOf(std::int64_t episode) const {
  const auto found = begins_.find(episode);
  if (found == begins_.end()) return std::nullopt;
  return found->second;
}

FrameId EpisodeSelection::FrameAt(std::int64_t step) const {
  const auto place =
      static_cast<std::size_t>(std::ranges::upper_bound(ends_, step) - ends_.begin());
  const std::int64_t begin = place == 0 ? 0 : ends_[place - 1];
  return {.step = step, .episode = episodes_[place], .frame = step - begin};
}

namespace {

// Closer times are those of the frames, rounded.
constexpr double kSameTime = 1e-4;  // [s]

}  // namespace

RowReader::RowReader(const Metadata& metadata, const EpisodeSelection& selection, double tolerance,
                     std::int64_t max_bytes, RowTimes* times)
    : metadata_(metadata),
      selection_(selection),
      tolerance_(tolerance),
      max_bytes_(max_bytes),
      times_(times),
      is_filled_(static_cast<std::size_t>(selection.n_steps())) {
  std::set<FileNumber> files;
  for (const std::int64_t episode : selection_.episodes()) {
    files.insert(metadata_.episodes[static_cast<std::size_t>(episode)].data);
  }
  files_.assign(files.begin(), files.end());
}

// Before memory is taken for the frames that meta/ promises.
void RowReader::RequireEnoughRows() {
  std::int64_t n_rows = 0;
  for (const FileNumber& number : files_) {
    n_rows += ParquetFile(metadata_.DataFile(number), max_bytes_).num_rows();
  }
  if (n_rows >= selection_.n_steps()) return;
  for (const FileNumber& number : files_) {
    ParquetFile file(metadata_.DataFile(number), max_bytes_);
    for (const Rows& group : file.row_groups()) StepsOfRows(number, file, group);
  }
  RequireEveryFrame(fmt::format("; the episodes have {} frames, but the data files hold {} rows",
                                selection_.n_steps(), n_rows));
}

void RowReader::RequireEveryFrame(const std::string& reason) const {
  const auto missing = std::ranges::find(is_filled_, false);
  if (missing == is_filled_.end()) return;
  const FrameId frame = selection_.FrameAt(missing - is_filled_.begin());
  const Episode& episode = metadata_.episodes[static_cast<std::size_t>(frame.episode)];
  throw Error(ErrorCode::kData, fmt::format("{}: episode {} has no frame {}{}",
                                            metadata_.DataFile(episode.data).string(),
                                            frame.episode, frame.frame, reason));
}

void RowReader::Read(std::map<std::string, Numbers>* numbers, bool with_images, ImageRows* images,
                     std::vector<RowTask>* tasks) {
  RequireEnoughRows();
  has_enough_rows_ = true;
  const auto n_steps = static_cast<std::size_t>(selection_.n_steps());
  for (auto& [name, own] : *numbers) {
    own.buffer = reader::PageBuffer(n_steps * own.n * sizeof(float));
  }
  if (with_images) images->places.resize(n_steps);
  for (const FileNumber& number : files_) ReadFile(number, numbers, images, tasks);
  RequireEveryFrame(/*reason=*/"");
}

// The step of a row, or -1 if its episode is not selected.
std::int64_t RowReader::StepOfRow(const FileNumber& number, std::int64_t index, std::int64_t frame,
                                  double time) {
  const std::optional<std::int64_t> begin = selection_.BeginOf(index);
  if (!begin) return -1;
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::kData,
                fmt::format("{}: episode {}, frame {}: {}", metadata_.DataFile(number).string(),
                            index, frame, what));
  };
  const Episode& episode = metadata_.episodes[static_cast<std::size_t>(index)];
  if (episode.data != number) {
    refuse(fmt::format("the table of episodes says that it is in {}",
                       metadata_.DataFile(episode.data).string()));
  }
  if (frame < 0 || frame >= episode.length) {
    refuse(fmt::format("the episode has {} frames", episode.length));
  }
  // times are stored as float32
  const double expected = static_cast<double>(frame) / metadata_.fps;
  const double rounding = expected * static_cast<double>(std::numeric_limits<float>::epsilon());
  const double distance = std::abs(time - expected);
  if (!(distance <= tolerance_ + rounding)) {
    refuse(
        fmt::format("expected the time {:.6f} s at {} Hz, found {:.6f} s; the tolerance is {} s "
                    "(dataset.params.row_tolerance_s, or --tolerance). With a larger one, the "
                    "images of videos are those nearest to the times of the rows",
                    expected, metadata_.fps, time, tolerance_));
  }
  if (has_enough_rows_ && distance > kSameTime + rounding) StateTimes();
  if (!times_->stated.empty()) {
    times_->stated[static_cast<std::size_t>(*begin + frame)] = static_cast<float>(time);
  }
  if (is_filled_[static_cast<std::size_t>(*begin + frame)]) refuse("the frame occurs twice");
  return *begin + frame;
}

// The times of all frames so far are those of the rate.
void RowReader::StateTimes() {
  if (!times_->stated.empty()) return;
  const auto n_steps = static_cast<std::size_t>(selection_.n_steps());
  times_->stated.resize(n_steps);
  for (std::size_t step = 0; step < n_steps; ++step) {
    const FrameId frame = selection_.FrameAt(static_cast<std::int64_t>(step));
    times_->stated[step] = static_cast<float>(static_cast<double>(frame.frame) / metadata_.fps);
  }
}

std::vector<std::int64_t> RowReader::StepsOfRows(const FileNumber& number, ParquetFile& file,
                                                 const Rows& rows) {
  const auto episodes = file.ReadNumbers<std::int64_t>("episode_index", rows);
  const auto frames = file.ReadNumbers<std::int64_t>("frame_index", rows);
  const auto times = file.ReadNumbers<double>("timestamp", rows);
  std::vector<std::int64_t> steps(episodes.size());
  for (std::size_t row = 0; row < steps.size(); ++row) {
    steps[row] = StepOfRow(number, episodes[row], frames[row], times[row]);
    if (steps[row] >= 0) is_filled_[static_cast<std::size_t>(steps[row])] = true;
  }
  return steps;
}

void RowReader::ReadFile(const FileNumber& number, std::map<std::string, Numbers>* numbers,
                         ImageRows* images, std::vector<RowTask>* tasks) {
  const std::filesystem::path path = metadata_.DataFile(number);
  ParquetFile file(path, max_bytes_);
  const auto file_index = static_cast<std::int32_t>(images->files.size());
  images->files.push_back(path);
  for (const Rows& group : file.row_groups()) {
    const std::vector<std::int64_t> steps = StepsOfRows(number, file, group);
    ReadTasks(path.string(), file, group, steps, tasks);
    for (auto& [name, own] : *numbers) {
      const auto values = file.ReadNumbers<float>(name, group, static_cast<std::int64_t>(own.n));
      for (std::size_t row = 0; row < steps.size(); ++row) {
        if (steps[row] < 0) continue;
        std::memcpy(own.buffer.bytes().data() +
                        static_cast<std::size_t>(steps[row]) * own.n * sizeof(float),
                    values.data() + row * own.n, own.n * sizeof(float));
      }
    }
    for (std::size_t row = 0; row < steps.size() && !images->places.empty(); ++row) {
      if (steps[row] < 0) continue;
      images->places[static_cast<std::size_t>(steps[row])] = {
          .file = file_index, .row = group.first + static_cast<std::int64_t>(row)};
    }
  }
}

void RowReader::ReadTasks(const std::string& where, ParquetFile& file, const Rows& group,
                          const std::vector<std::int64_t>& steps, std::vector<RowTask>* tasks) {
  const char* const kColumn = "task_index";
  if (!file.HasColumn(kColumn)) return;
  tasks->resize(metadata_.episodes.size());
  const auto indices = file.ReadNumbers<std::int64_t>(kColumn, group);
  for (std::size_t row = 0; row < steps.size(); ++row) {
    if (steps[row] < 0) continue;
    const FrameId frame = selection_.FrameAt(steps[row]);
    RowTask& task = (*tasks)[static_cast<std::size_t>(frame.episode)];
    if (!metadata_.tasks.contains(indices[row])) {
      throw Error(ErrorCode::kData,
                  fmt::format("{}: episode {}, frame {}: the table of tasks has no task_index {}",
                              where, frame.episode, frame.frame, indices[row]));
    }
    task.changes = task.changes || (task.index && *task.index != indices[row]);
    if (!task.index || frame.frame == 0) task.index = indices[row];
  }
}

}  // namespace dp_bench::lerobot
