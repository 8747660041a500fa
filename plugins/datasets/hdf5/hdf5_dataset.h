// Demonstrations in HDF5 files (data/hdf5/demonstrations.h). Numbers are read once and kept in
// memory as float32. Images are read when they are needed, and kept as far as a memory limit
// allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "array_reading.h"
#include "data/hdf5/demonstrations.h"
#include "data/reader/keyed_dataset.h"

namespace dp_bench::hdf5 {

using reader::KeyConfig;

/// {"path": "demos.hdf5", "filter_key": "train", "keys": {"agent_pos": {"array":
/// "obs/robot0_eef_pos"}, "image": {"array": "obs/agentview_image"}, "action": {"array":
/// "actions"}}}. Arrays are below the group of an episode. Without "keys", every array of
/// observations with numbers or images is a key with its name.
struct Hdf5Config {
  std::filesystem::path path;
  std::optional<std::string> filter_key;
  std::optional<double> fps;
  reader::KeyConfigs keys;
  double memory_limit_mb = 4096.0;

  static Hdf5Config FromConfig(const Config& params);
};

class Hdf5Dataset final : public reader::KeyedDataset {
 public:
  /// Tries it in a child process first (TryInChild).
  static std::unique_ptr<Dataset> Create(const Config& params);

  /// Checks the headers of all arrays that are read, so that a training cannot fail in the middle
  /// because of them, and reads the numbers. Throws Error{kData} for faults of the files,
  /// Error{kConfig} for keys that do not fit the arrays and a limit that is too low,
  /// Error{kNumeric} for numbers that float32 cannot hold.
  explicit Hdf5Dataset(const Hdf5Config& config);

  /// What dp_bench noted when it wrote the first episode.
  std::vector<std::string> ChannelNames(int key) const override;

 private:
  // An array of images in one episode.
  struct Image {
    std::int64_t block_rows = 1;  // that are read together
    std::size_t row_bytes = 0;    // of an image file
  };

  struct KeySource {
    std::string array;
    std::vector<std::string> channels;  // names of its numbers, if the file has them
    StoredAs stored = StoredAs::kNumbers;
    ArrayReading first = {};      // of the first episode, also if only a part is taken
    ArrayHeader header = {};      // of the first episode
    std::optional<KeyType> type;  // what the config or the file says
    reader::PageBuffer numbers;   // all steps
    Shape image;                  // [H, W] of image files
    std::vector<Image> images;    // by episode
  };

  void AddKeys(const Hdf5Config& config);
  void AddKey(const std::string& name, const KeyConfig& config, bool is_asked_for);
  Held Choose(const std::string& name, const KeyConfig& config, StoredAs stored, KeySpec* spec);
  ArrayQuestion Ask(const H5File& file, const std::string& path, const KeySource& source,
                    const std::string& name) const;
  bool BeginsWithColours(const H5File& file, const std::string& path,
                         const ArrayHeader& header) const;
  void CheckEpisode(std::size_t episode, std::size_t key);
  void LoadNumbers();
  void PrepareCache();
  void ReadImages(std::size_t key, std::int64_t begin, std::int64_t end,
                  std::span<std::byte> out) const override;
  void ReadBlock(std::size_t key, std::size_t episode, std::int64_t begin, std::int64_t end,
                 std::span<std::byte> out) const;

  reader::MemoryBudget memory_;
  DemonstrationFiles files_;
  std::vector<std::int64_t> episode_ends_;
  std::vector<KeySource> sources_;             // one per key of spec_
  std::unique_ptr<reader::ChunkCache> cache_;  // of images
};

}  // namespace dp_bench::hdf5
