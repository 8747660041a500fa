// A dataset that is being written, of the formats whose files are put together at the end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>

namespace dp_bench::core {
class FolderLock;
}

namespace dp_bench::reader {

/// The folder <path>.unfinished, with one file per episode, so that a kill costs at most one
/// episode. Only one process at a time has it.
class UnfinishedDataset {
 public:
  /// Begins a folder, or continues one. `identity` is what the files of episodes depend on. Throws
  /// Error{kUsage} and changes nothing if there is something at `path` (an empty folder may be, if
  /// the dataset is one), if `path` is empty, or if the unfinished one has another identity.
  UnfinishedDataset(const std::filesystem::path& path, bool is_folder,
                    const nlohmann::json& identity);
  UnfinishedDataset(const UnfinishedDataset&) = delete;
  UnfinishedDataset& operator=(const UnfinishedDataset&) = delete;
  ~UnfinishedDataset();

  const std::filesystem::path& folder() const { return folder_; }

  /// Calls `move`, which moves the finished dataset to its path, and removes the folder. Killed
  /// between the two, the folder goes when the next run finds the dataset.
  void Publish(const std::function<void()>& move);

 private:
  std::filesystem::path folder_;
  std::unique_ptr<core::FolderLock> lock_;
};

/// Throws Error{kUsage} if a dataset that would be at `path` has no episode.
void RequireEpisodes(std::int64_t n_episodes, const std::filesystem::path& path);

/// Makes a complete file durable and moves it to its name.
void MoveDurably(const std::filesystem::path& temporary, const std::filesystem::path& path);

}  // namespace dp_bench::reader
