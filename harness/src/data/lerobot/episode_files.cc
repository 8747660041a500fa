#include "data/lerobot/episode_files.h"

#include <memory>

#include "core/atomic_file.h"
#include "data/lerobot/parquet_file.h"
#include "dp_bench/error.h"
#include "media/video_joiner.h"

namespace dp_bench::lerobot {
namespace {

namespace fs = std::filesystem;
using FileOf = std::function<fs::path(std::int64_t)>;

// Version 3.0: as many episodes per file as fit.
void JoinTables(const fs::path& root, const FileOf& file_of, WrittenDataset* dataset) {
  FileNumber number;
  std::unique_ptr<ParquetJoiner> joiner;
  for (std::int64_t i = 0; i < std::ssize(dataset->episodes); ++i) {
    WrittenEpisode& episode = dataset->episodes[static_cast<std::size_t>(i)];
    if (joiner != nullptr && joiner->n_rows() > 0) {
      const auto n_bytes = static_cast<double>(joiner->n_bytes());
      const double per_frame = n_bytes / static_cast<double>(joiner->n_rows());
      if (n_bytes + per_frame * static_cast<double>(episode.length) >=
          dataset->data_file_mb * kBytesPerMb) {
        joiner->Finish();
        joiner.reset();
        number = NextFile(number);
      }
    }
    if (joiner == nullptr) {
      const fs::path file = root / DataPath(dataset->version, number);
      core::CreateFolders(file.parent_path());
      joiner = std::make_unique<ParquetJoiner>(file, file_of(i));
    }
    joiner->Append(file_of(i));
    episode.data = number;
  }
  joiner->Finish();
}

// The new file of a camera.
fs::path NewVideo(const fs::path& root, const WrittenDataset& dataset, const std::string& camera,
                  const FileNumber& number) {
  fs::path file = root / VideoPath(dataset.version, camera, number);
  core::CreateFolders(file.parent_path());
  return file;
}

// Version 2.1: a file per episode, at the path that `path_of` gives for its number.
void CopyFiles(const WrittenDataset& dataset, const FileOf& file_of,
               const std::function<fs::path(const FileNumber&)>& path_of) {
  for (std::int64_t i = 0; i < std::ssize(dataset.episodes); ++i) {
    const fs::path file = path_of({.chunk = i / kChunksSize, .file = i});
    core::CreateFolders(file.parent_path());
    fs::copy_file(file_of(i), file);
  }
}

// Version 3.0: as many episodes per file as fit, which have the same settings of the encoder.
class VideoFiles {
 public:
  VideoFiles(const fs::path& root, const std::string& camera, const WrittenDataset& dataset)
      : root_(root), camera_(camera), dataset_(dataset) {}

  WrittenVideo Add(const fs::path& file, std::int64_t n_frames) {
    const media::VideoPart part = {.file = file, .from_time = 0.0, .n_frames = n_frames};
    if (joiner_ != nullptr) {
      const auto n_bytes =
          static_cast<double>(joiner_->n_bytes()) + static_cast<double>(fs::file_size(file));
      const bool is_full = n_bytes >= dataset_.video_file_mb * kBytesPerMb;
      if (is_full || !TryAppend(part)) Finish();
    }
    if (joiner_ == nullptr) {
      joiner_ = std::make_unique<media::VideoJoiner>(NewVideo(root_, dataset_, camera_, number_),
                                                     dataset_.fps);
      const bool is_appended = TryAppend(part);
      DPB_ASSERT(is_appended);
    }
    const auto time_of = [&](std::int64_t frame) {
      return static_cast<double>(frame) / dataset_.fps;
    };
    return {.file = number_,
            .from_timestamp = time_of(joiner_->n_frames() - n_frames),
            .to_timestamp = time_of(joiner_->n_frames())};
  }

  void Finish() {
    joiner_->Finish();
    joiner_.reset();
    number_ = NextFile(number_);
  }

 private:
  bool TryAppend(const media::VideoPart& part) { return joiner_->TryAppend(part); }

  const fs::path& root_;
  const std::string& camera_;
  const WrittenDataset& dataset_;
  FileNumber number_;
  std::unique_ptr<media::VideoJoiner> joiner_;
};

}  // namespace

void WriteDataFiles(const fs::path& root, const FileOf& file_of, WrittenDataset* dataset) {
  if (dataset->version == Version::kV30) return JoinTables(root, file_of, dataset);
  CopyFiles(*dataset, file_of,
            [&](const FileNumber& number) { return root / DataPath(dataset->version, number); });
}

void WriteVideoFiles(const fs::path& root, const std::string& camera, const FileOf& file_of,
                     WrittenDataset* dataset) {
  if (dataset->version != Version::kV30) {
    return CopyFiles(*dataset, file_of, [&](const FileNumber& number) {
      return root / VideoPath(dataset->version, camera, number);
    });
  }
  VideoFiles files(root, camera, *dataset);
  for (std::int64_t i = 0; i < std::ssize(dataset->episodes); ++i) {
    WrittenEpisode& episode = dataset->episodes[static_cast<std::size_t>(i)];
    episode.videos[camera] = files.Add(file_of(i), episode.length);
  }
  files.Finish();
}

}  // namespace dp_bench::lerobot
