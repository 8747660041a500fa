// The replay buffers of diffusion_policy, and those that `dp_bench collect` writes: zarr v2
// hierarchies with the arrays data/* (first axis: steps of all episodes) and meta/episode_ends.
// Everything is decoded once, in parallel, and kept in memory: numbers as float32, images as uint8,
// depth as uint16.
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

#include "conversion.h"
#include "dp_bench/dataset.h"
#include "page_buffer.h"
#include "store.h"

namespace dp_bench::zarr_replay {

/// Where a key comes from.
struct KeyConfig {
  std::string array;  // data/state
  KeyType type = KeyType::kLowDim;
  std::optional<std::int64_t> begin;  // range within the flattened elements of a step; low_dim only
  std::optional<std::int64_t> end;
};

/// {"path": "pusht.zarr", "fps": 10, "keys": {"agent_pos": {"array": "data/state", "begin": 0,
/// "end": 2}, "image": {"array": "data/img", "type": "rgb"}, "action": {"array": "data/action"}}}.
/// Without "keys", every array below data/ is a key of its own name: [N, H, W, 3] of uint8 is rgb,
/// [N, H, W] or [N, H, W, 1] of uint16 depth, anything else low_dim.
struct ZarrReplayConfig {
  std::filesystem::path path;  // folder or .zarr.zip; relative to the current directory
  std::optional<double> fps;   // else what .zattrs says, else 10
  std::string episode_ends = "meta/episode_ends";
  std::map<std::string, KeyConfig> keys;  // none: every array below data/

  static ZarrReplayConfig FromConfig(const Config& params);
};

class ZarrArray;

class ZarrReplayDataset final : public Dataset {
 public:
  static std::unique_ptr<Dataset> Create(const Config& params);

  /// Loads everything. Throws Error{kData} for whatever is wrong with the files, Error{kConfig} for
  /// keys that do not fit the arrays.
  explicit ZarrReplayDataset(const ZarrReplayConfig& config);

  const DatasetSpec& spec() const override { return spec_; }
  std::span<const std::int64_t> episode_ends() const override { return episode_ends_; }
  void Read(int key, std::int64_t begin, std::int64_t end, std::span<std::byte> out) const override;

 private:
  // Part of every step of a loaded array.
  struct KeySource {
    const PageBuffer* buffer;
    std::size_t step_bytes;
    std::size_t offset;
  };

  void LoadEpisodeEnds(const Store& store, const std::string& name, int n_threads);
  void AddKey(const Store& store, const std::string& name, const KeyConfig& config, int n_threads);
  const PageBuffer& LoadOnce(const ZarrArray& array, Target target, int n_threads);

  DatasetSpec spec_;
  bool is_growing_ = false;  // arrays may be longer than the episodes
  std::vector<std::int64_t> episode_ends_;
  std::map<std::pair<std::string, Target>, PageBuffer> buffers_;  // shared by keys of one array
  std::vector<KeySource> sources_;                                // as spec_.keys
};

}  // namespace dp_bench::zarr_replay
