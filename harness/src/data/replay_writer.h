// Appends episodes to a replay buffer folder in diffusion_policy's layout of zarr v2: data/<key>
// with the steps of all episodes and the type of the key in its .zattrs, meta/episode_ends, and the
// origin of the data in .zattrs. After a
// kill at any time, the folder holds the episodes of the last `Commit`. Its final bytes do not
// depend on when `Commit` was called.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/folder_lock.h"
#include "data/zarr/array_writer.h"
#include "dp_bench/array.h"
#include "dp_bench/dataset_writer.h"
#include "dp_bench/env.h"
#include "dp_bench/spec.h"

namespace dp_bench::data {

/// What the steps of an env are recorded with: all of its observations, then its action.
std::vector<KeySpec> RecordedKeys(const EnvSpec& env);

/// The steps of one episode, in the form in which they are stored. Images with one chunk each are
/// compressed as they arrive: on the thread that made them, and before they pile up.
class ReplayEpisode {
 public:
  /// Throws Error{kShape} for a key that cannot be stored: low_dim keys are float32, rgb keys
  /// uint8, depth keys uint16.
  explicit ReplayEpisode(std::span<const KeySpec> keys);

  /// Appends a step: one value per key, each KeySpec::ByteSize() bytes in storage order.
  void Append(std::span<const std::span<const std::byte>> values);

  std::int64_t n_steps() const { return n_steps_; }

  /// The steps as bytes, for a file: per key "bytes.<key>", and "sizes.<key>" of its chunks if each
  /// has one step.
  ArrayMap ToArrays() const;

  /// The inverse, for the keys that it was recorded for. Throws Error{kData} naming `origin` if the
  /// arrays are something else.
  static ReplayEpisode FromArrays(std::span<const KeySpec> keys, const ArrayMap& arrays,
                                  const std::string& origin);

 private:
  friend class ReplayWriter;

  struct Key {
    std::string name;
    zarr::ZarrLayout layout;
    std::vector<std::byte> rows;                 // for chunks of many steps
    std::vector<std::vector<std::byte>> chunks;  // encoded, for chunks of one step
  };

  std::vector<Key> keys_;
  std::int64_t n_steps_ = 0;
};

using ChannelsByKey = std::map<std::string, std::vector<std::string>>;

class ReplayWriter {
 public:
  /// Opens `folder` to continue after its last committed episode, or creates it. `origin` describes
  /// what the data are made from. Throws and changes nothing: Error{kUsage} if the folder has
  /// another origin, was not written by this class, or is being written by another process;
  /// Error{kShape} as ReplayEpisode for a key that cannot be stored.
  /// `channels`: names of the numbers of keys, by key, which the arrays keep.
  ReplayWriter(std::filesystem::path folder, std::vector<KeySpec> keys,
               const nlohmann::json& origin, ChannelsByKey channels = {});
  ReplayWriter(const ReplayWriter&) = delete;
  ReplayWriter& operator=(const ReplayWriter&) = delete;
  ~ReplayWriter();

  /// The content of .zattrs when the folder was opened, or at the last `Commit`.
  const nlohmann::json& attributes() const { return attributes_; }

  /// Episodes and steps so far, including those that are not committed yet.
  std::int64_t n_episodes() const;
  std::int64_t n_steps() const { return n_steps_; }

  /// Appends an episode of at least one step, recorded for the keys of this writer.
  void Append(const ReplayEpisode& episode);

  /// Makes all episodes so far durable. `attributes` is an object that becomes .zattrs, with
  /// "origin" and "complete" added. While "complete" is false, arrays may be longer than the
  /// episodes.
  void Commit(nlohmann::json attributes, bool is_complete);

 private:
  void Identify();
  void CreateGroups();
  void OpenArrays();

  std::filesystem::path folder_;
  std::vector<KeySpec> keys_;
  ChannelsByKey channels_;
  nlohmann::json attributes_;
  nlohmann::json origin_;
  std::unique_ptr<core::FolderLock> lock_;
  std::vector<zarr::ZarrArrayWriter> arrays_;  // one per key
  std::unique_ptr<zarr::ZarrArrayWriter> episode_ends_;
  std::int64_t n_steps_ = 0;
  bool has_unsynced_chunks_ = false;
};

/// A seed without an episode in a dataset, and why.
struct SeedFailure {
  std::uint64_t seed = 0;
  std::string reason;
};

/// For Commit: what a dataset says about its rollouts. `episodes`: a list for each property, in
/// the order of the episodes, "seed" among them.
nlohmann::json RolloutAttributes(double fps, std::int64_t n_steps, nlohmann::json episodes,
                                 std::span<const SeedFailure> failures);

/// The .zattrs of a folder that a ReplayWriter made; null if the folder is something else or
/// absent.
nlohmann::json ReadReplayAttributes(const std::filesystem::path& folder);

/// After the name of a recorded dataset of another format: the file that has what .zattrs has.
inline constexpr const char* kAttributesBeside = ".recording.json";

/// Whether two sections `env` of configs are of one task, so that their seeds mean the same.
bool AreOfOneTask(const nlohmann::json& env, const nlohmann::json& other);

/// The seeds of the dataset's episodes if it names them and they are from the task of `env`, the
/// section of a config. Else none.
std::vector<std::uint64_t> SeedsOfEpisodes(const std::filesystem::path& dataset,
                                           const nlohmann::json& env);

// Writes the episodes of any dataset into a replay buffer (replay_writer.h).

class ReplayDatasetWriter final : public DatasetWriter {
 public:
  /// See DatasetWriter for `path` and `source`. `episodes`: a list for each property of the
  /// episodes to come, also of those that are there, as in RolloutAttributes; may be empty.
  ReplayDatasetWriter(const std::filesystem::path& path, const std::string& source,
                      const DatasetSpec& spec, ChannelsByKey channels = {},
                      nlohmann::json episodes = {});
  /// Commits whole episodes, also if the copy was interrupted or failed; leaves nothing if there is
  /// none.
  ~ReplayDatasetWriter() override;

  std::int64_t n_episodes() const override { return writer_->n_episodes(); }
  void BeginEpisode(const EpisodeHead& head) override;
  void Append(std::span<const std::span<const std::byte>> values) override;
  void Finish() override;

 private:
  void Commit(bool is_complete);

  DatasetSpec spec_;
  std::filesystem::path path_;
  std::optional<ReplayWriter> writer_;
  bool is_committed_ = false;  // at least one episode
  bool has_news_ = false;      // whole episodes that are not committed
  std::optional<ReplayEpisode> episode_;
  EpisodeHead head_;                // of the episode
  std::vector<std::string> tasks_;  // of all whole episodes
  nlohmann::json episodes_;         // of all episodes, also those to come
  std::chrono::steady_clock::time_point last_commit_;
};

}  // namespace dp_bench::data
