// The replay buffers of diffusion_policy, and those that `dp_bench collect` writes: zarr
// hierarchies (version 2 or 3) with the arrays data/* (first axis: steps of all episodes) and
// meta/episode_ends. Numbers are decoded once, in parallel, and kept in memory as float32. So are
// images, colour as uint8 and depth as uint16, if all of them fit in a memory limit. Otherwise they
// are decoded when they are read, and the limit applies to the decoded chunks that are kept.
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

#include "data/reader/keyed_dataset.h"
#include "data/zarr/array.h"
#include "data/zarr/element_type.h"
#include "data/zarr/metadata.h"
#include "data/zarr/store.h"

namespace dp_bench::zarr_replay {

using reader::KeyConfig;

/// {"path": "pusht.zarr", "fps": 10, "keys": {"agent_pos": {"array": "data/state", "begin": 0,
/// "end": 2}, "image": {"array": "data/img", "type": "rgb"}, "action": {"array": "data/action"}}}.
/// Without "keys", every array of numbers below data/ that has a value for each step is a key with
/// the name of the array; what is left out is said. Its type is what its attribute "dp_bench_type"
/// says, or else: uint8 [N, H, W, 3], and with 16 pixels or more also [N, 3, H, W] and whole
/// float32 numbers, is rgb; uint16 [N, H, W], [N, H, W, 1] or [N, 1, H, W] with 16 pixels or more
/// is depth; anything else is low_dim. A key without an
/// array has the one of its name. "memory_limit_mb" is a limit for everything together: images,
/// numbers, episode ends, and chunks while they are decoded. If images need more than is left,
/// their chunks are decoded on demand. Then opening is fast, but every epoch decodes them again.
struct ZarrReplayConfig {
  std::filesystem::path path;
  std::optional<double> fps;
  std::string episode_ends = "meta/episode_ends";
  reader::KeyConfigs keys;
  double memory_limit_mb = 4096.0;

  static ZarrReplayConfig FromConfig(const Config& params);
};

class ZarrReplayDataset final : public reader::KeyedDataset {
 public:
  static std::unique_ptr<Dataset> Create(const Config& params);

  /// Checks the headers of all chunks and loads what fits. Throws Error{kData} for all faults of
  /// the files, Error{kConfig} for keys that do not fit the arrays and for a limit below one chunk.
  explicit ZarrReplayDataset(const ZarrReplayConfig& config);

  /// The same, but reads from this store instead of the config's path.
  ZarrReplayDataset(const ZarrReplayConfig& config, std::unique_ptr<zarr::Store> store);

  // what dp_bench noted when it wrote the folder
  std::string Task(std::int64_t episode) const override;
  std::vector<std::string> ChannelNames(int key) const override;

 private:
  struct KeySource {
    const zarr::ZarrArray* array;
    DType target;
    bool is_channels_first = false;  // a colour image whose channels must be interleaved
  };

  const zarr::ZarrArray& Open(const std::string& name);
  reader::KeyConfigs FindKeys();
  std::string WhyLeftOut(const std::string& array) const;
  KeyType GuessType(const zarr::ZarrArray& array) const;
  bool HasEveryStep(const Shape& shape) const;
  void ExplainNoEpisodes(const std::string& name) const;
  void LoadEpisodeEnds(const std::string& name);
  void AddKey(const std::string& name, const KeyConfig& config);
  void Load(const zarr::ZarrArray& array, DType target, reader::PageBuffer* buffer);
  void LoadArrays();
  void LoadSource(std::size_t key);
  void PrepareCache();
  void TellMissingChunks() const;

  /// Decodes images that were not loaded; throws Error{kData} if a chunk is damaged.
  void ReadImages(std::size_t key, std::int64_t begin, std::int64_t end,
                  std::span<std::byte> out) const override;

  reader::MemoryBudget memory_;
  std::unique_ptr<zarr::Store> store_;
  bool is_growing_ = false;         // arrays may be longer than the episodes
  std::vector<std::string> tasks_;  // one per episode, or none
  reader::PageBuffer episode_end_bytes_;
  std::map<std::string, zarr::ZarrArray> arrays_;  // opened once, shared by keys
  std::map<std::pair<const zarr::ZarrArray*, DType>, reader::PageBuffer> buffers_;
  std::unique_ptr<reader::ChunkCache> cache_;  // of images that are not loaded
  std::vector<KeySource> sources_;             // one per key of spec_
};

}  // namespace dp_bench::zarr_replay
