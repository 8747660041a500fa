// The replay buffers of diffusion_policy, and those that `dp_bench collect` writes: zarr v2
// hierarchies with the arrays data/* (first axis: steps of all episodes) and meta/episode_ends.
// Numbers are decoded once, in parallel, and kept in memory as float32. So are pictures, images as
// uint8 and depth as uint16, where all of them fit a limit; else they are decoded where they are
// read, and the limit holds for the decoded chunks that are kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/zarr/array.h"
#include "data/zarr/attributes.h"
#include "data/zarr/chunk_cache.h"
#include "data/zarr/conversion.h"
#include "data/zarr/page_buffer.h"
#include "data/zarr/store.h"
#include "dp_bench/dataset.h"

namespace dp_bench::zarr_replay {

/// Where a key comes from.
struct KeyConfig {
  std::string array;
  KeyType type = KeyType::kLowDim;
  std::optional<std::int64_t> begin;
  std::optional<std::int64_t> end;
};

/// {"path": "pusht.zarr", "fps": 10, "keys": {"agent_pos": {"array": "data/state", "begin": 0,
/// "end": 2}, "image": {"array": "data/img", "type": "rgb"}, "action": {"array": "data/action"}}}.
/// Without "keys", every array below data/ is a key of its own name: [N, H, W, 3] of uint8, or of
/// float32 with 16 pixels or more, is rgb, [N, H, W] or [N, H, W, 1] of uint16 depth, anything else
/// low_dim. "memory_limit_mb" is what all of it may take: pictures, numbers, episode ends, and the
/// chunks while they are decoded. When pictures need more than is left, their chunks are decoded on
/// demand: opening costs no decoding, every epoch does.
struct ZarrReplayConfig {
  std::filesystem::path path;
  std::optional<double> fps;
  std::string episode_ends = "meta/episode_ends";
  std::map<std::string, KeyConfig> keys;
  double memory_limit_mb = 4096.0;

  static ZarrReplayConfig FromConfig(const Config& params);
};

class ZarrReplayDataset final : public Dataset {
 public:
  static std::unique_ptr<Dataset> Create(const Config& params);

  /// Checks the headers of all chunks and loads what fits. Throws Error{kData} for whatever is
  /// wrong with the files, Error{kConfig} for keys that do not fit the arrays and a limit below one
  /// chunk.
  explicit ZarrReplayDataset(const ZarrReplayConfig& config);

  /// The same from this store; the config's path is not read.
  ZarrReplayDataset(const ZarrReplayConfig& config, std::unique_ptr<zarr::Store> store);

  const DatasetSpec& spec() const override { return spec_; }
  std::span<const std::int64_t> episode_ends() const override { return episode_ends_; }

  /// Pictures that were not loaded are decoded here; a damaged chunk throws Error{kData} then.
  void Read(int key, std::int64_t begin, std::int64_t end, std::span<std::byte> out) const override;

 private:
  // Part of every step of an array.
  struct KeySource {
    const zarr::ZarrArray* array;
    zarr::Target target;
    std::size_t step_bytes;
    std::size_t offset;
    const zarr::PageBuffer* buffer = nullptr;  // null: decoded where it is read
  };

  const zarr::ZarrArray& Open(const std::string& name);
  std::map<std::string, KeyConfig> FindKeys();
  void LoadEpisodeEnds(const std::string& name);
  void AddKey(const std::string& name, const KeyConfig& config);
  void Load(const zarr::ZarrArray& array, zarr::Target target, zarr::PageBuffer* buffer);
  void LoadArrays();
  void LoadSource(KeySource* source);
  void PrepareCache();

  double memory_limit_;      // [bytes]
  double held_bytes_ = 0.0;  // of what is loaded
  std::unique_ptr<zarr::Store> store_;
  DatasetSpec spec_;
  bool is_growing_ = false;  // arrays may be longer than the episodes
  zarr::PageBuffer episode_end_bytes_;
  std::span<const std::int64_t> episode_ends_;     // in them
  std::map<std::string, zarr::ZarrArray> arrays_;  // opened once, shared by keys
  std::map<std::pair<const zarr::ZarrArray*, zarr::Target>, zarr::PageBuffer> buffers_;
  std::unique_ptr<zarr::ChunkCache> cache_;  // of pictures that are not loaded
  std::vector<KeySource> sources_;           // as spec_.keys
};

}  // namespace dp_bench::zarr_replay
