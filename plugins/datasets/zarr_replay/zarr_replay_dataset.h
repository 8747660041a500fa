// The replay buffers of diffusion_policy, and those that `dp_bench collect` writes: zarr v2
// hierarchies with the arrays data/* (first axis: steps of all episodes) and meta/episode_ends.
// Numbers are decoded once, in parallel, and kept in memory as float32. So are images, colour as
// uint8 and depth as uint16, if all of them fit in a memory limit. Otherwise they are decoded when
// they are read, and the limit applies to the decoded chunks that are kept.
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

/// The source of a key.
struct KeyConfig {
  std::string array;
  std::optional<KeyType> type;  // none: guessed from the array
  std::optional<std::int64_t> begin;
  std::optional<std::int64_t> end;
};

/// {"path": "pusht.zarr", "fps": 10, "keys": {"agent_pos": {"array": "data/state", "begin": 0,
/// "end": 2}, "image": {"array": "data/img", "type": "rgb"}, "action": {"array": "data/action"}}}.
/// Without "array", a key is the array data/<key>, and its type is guessed as described next.
/// Without "keys", every array below data/ is a key with the name of the array: [N, H, W, 3] of
/// uint8, or of float32 with 16 pixels or more, is rgb, [N, H, W] or [N, H, W, 1] of uint16 depth,
/// anything else low_dim. "memory_limit_mb" is a limit for everything together: images, numbers,
/// episode ends, and chunks while they are decoded. If images need more than is left, their chunks
/// are decoded on demand. Then opening is fast, but every epoch decodes them again.
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

  /// Checks the headers of all chunks and loads what fits. Throws Error{kData} for all faults of
  /// the files, Error{kConfig} for keys that do not fit the arrays and for a limit below one chunk.
  explicit ZarrReplayDataset(const ZarrReplayConfig& config);

  /// The same, but reads from this store instead of the config's path.
  ZarrReplayDataset(const ZarrReplayConfig& config, std::unique_ptr<zarr::Store> store);

  const DatasetSpec& spec() const override { return spec_; }
  std::span<const std::int64_t> episode_ends() const override { return episode_ends_; }

  /// Decodes images that were not loaded; throws Error{kData} if a chunk is damaged.
  void Read(int key, std::int64_t begin, std::int64_t end, std::span<std::byte> out) const override;

 private:
  // Part of every step of an array.
  struct KeySource {
    const zarr::ZarrArray* array;
    zarr::Target target;
    std::size_t step_bytes;
    std::size_t offset;
    const zarr::PageBuffer* buffer = nullptr;  // null: decoded when it is read
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
  double held_bytes_ = 0.0;  // of everything that is loaded
  std::unique_ptr<zarr::Store> store_;
  DatasetSpec spec_;
  bool is_growing_ = false;  // arrays may be longer than the episodes
  zarr::PageBuffer episode_end_bytes_;
  std::span<const std::int64_t> episode_ends_;     // in them
  std::map<std::string, zarr::ZarrArray> arrays_;  // opened once, shared by keys
  std::map<std::pair<const zarr::ZarrArray*, zarr::Target>, zarr::PageBuffer> buffers_;
  std::unique_ptr<zarr::ChunkCache> cache_;  // of images that are not loaded
  std::vector<KeySource> sources_;           // one per key of spec_
};

}  // namespace dp_bench::zarr_replay
