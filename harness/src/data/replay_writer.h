// Episodes appended to a replay buffer folder, diffusion_policy's layout of zarr v2: data/<key>
// with the steps of all episodes, meta/episode_ends, and what the data are made from in .zattrs.
// Killed at any time, the folder holds the episodes of the last `Commit`; its final bytes do not
// depend on when those were.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "core/folder_lock.h"
#include "data/zarr/array_writer.h"
#include "dp_bench/spec.h"

namespace dp_bench::data {

/// The steps of one episode in the form in which they will be stored. Pictures that fill a chunk
/// each are compressed when they come: on the thread that made them, and before they pile up.
class ReplayEpisode {
 public:
  /// Throws Error{kShape} for a key that cannot be stored: low_dim keys are float32, rgb keys
  /// uint8, depth keys uint16.
  explicit ReplayEpisode(std::span<const KeySpec> keys);

  /// Appends a step: one value per key, each KeySpec::ByteSize() bytes in storage order.
  void Append(std::span<const std::span<const std::byte>> values);

  std::int64_t n_steps() const { return n_steps_; }

 private:
  friend class ReplayWriter;

  struct Key {
    zarr::ZarrLayout layout;
    std::vector<std::byte> rows;                 // of chunks of many steps
    std::vector<std::vector<std::byte>> chunks;  // encoded, of chunks of one step
  };

  std::vector<Key> keys_;
  std::int64_t n_steps_ = 0;
};

class ReplayWriter {
 public:
  /// Opens `folder` to continue behind its last committed episode, or creates it. `origin` names
  /// what the data are made from; a folder of another origin, or one that this class did not
  /// write, throws Error{kUsage} and stays as it is. So does a folder that another process writes.
  ReplayWriter(std::filesystem::path folder, std::vector<KeySpec> keys,
               const nlohmann::json& origin);
  ReplayWriter(const ReplayWriter&) = delete;
  ReplayWriter& operator=(const ReplayWriter&) = delete;
  ~ReplayWriter();

  /// What .zattrs held when the folder was opened, or was last committed.
  const nlohmann::json& attributes() const { return attributes_; }

  /// Episodes and steps so far, those that are not committed yet included.
  std::int64_t n_episodes() const;
  std::int64_t n_steps() const { return n_steps_; }

  /// Appends an episode of one step or more, recorded for the keys of this writer.
  void Append(const ReplayEpisode& episode);

  /// Makes all episodes so far durable. `attributes` is an object that becomes .zattrs, with
  /// "origin" and "complete" added: while that is false, arrays may be longer than the episodes.
  void Commit(nlohmann::json attributes, bool is_complete);

 private:
  void Identify();
  void CreateGroups();
  void OpenArrays();

  std::filesystem::path folder_;
  std::vector<KeySpec> keys_;
  nlohmann::json attributes_;
  nlohmann::json origin_;
  std::unique_ptr<core::FolderLock> lock_;
  std::vector<zarr::ZarrArrayWriter> arrays_;  // as keys_
  std::unique_ptr<zarr::ZarrArrayWriter> episode_ends_;
  std::int64_t n_steps_ = 0;
  bool has_unsynced_chunks_ = false;
};

/// The .zattrs of a folder that a ReplayWriter made; null when it is something else or absent.
nlohmann::json ReadReplayAttributes(const std::filesystem::path& folder);

}  // namespace dp_bench::data
