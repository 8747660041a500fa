// Demonstrations in HDF5 files (data/hdf5/demonstrations.h). Numbers are read once and kept in
// memory as float32. Pictures are read when they are needed, and kept as far as a memory limit
// allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "array_reading.h"
#include "data/hdf5/demonstrations.h"
#include "data/hdf5/encoded_pictures.h"
#include "data/zarr/chunk_cache.h"
#include "data/zarr/page_buffer.h"
#include "dp_bench/dataset.h"
#include "hdf5_config.h"

namespace dp_bench::hdf5 {

class Hdf5Dataset final : public Dataset {
 public:
  /// Tries it in a child process first (data/hdf5/trial.h).
  static std::unique_ptr<Dataset> Create(const Config& params);

  /// Checks the headers of all arrays that are read, so that a training cannot fail in the middle
  /// because of them, and reads the numbers. Throws Error{kData} for faults of the files,
  /// Error{kConfig} for keys that do not fit the arrays and a limit that is too low,
  /// Error{kNumeric} for numbers that float32 cannot hold.
  explicit Hdf5Dataset(const Hdf5Config& config);

  const DatasetSpec& spec() const override { return spec_; }
  std::span<const std::int64_t> episode_ends() const override { return ends_; }
  void Read(int key, std::int64_t begin, std::int64_t end, std::span<std::byte> out) const override;

 private:
  // An array of pictures in one episode.
  struct Picture {
    std::int64_t block_rows = 1;  // that are read together
    std::size_t row_bytes = 0;    // of a picture file
  };

  struct KeySource {
    std::string array;
    StoredAs stored = StoredAs::kNumbers;
    std::optional<KeyType> type;    // what the config or the file says
    zarr::PageBuffer numbers;       // all steps
    std::size_t step_bytes = 0;     // of them
    std::size_t offset = 0;         // of a slice in a step
    Shape picture;                  // [H, W] of picture files
    std::vector<Picture> pictures;  // by episode
  };

  void AddKeys(const Hdf5Config& config);
  void AddKey(const std::string& name, const KeyConfig& config, bool is_asked_for);
  void Slice(const std::string& name, const KeyConfig& config, KeySpec* spec, KeySource* source);
  ArrayQuestion Ask(const H5File& file, const std::string& path, const KeySource& source,
                    const std::string& name) const;
  void CheckEpisode(std::size_t episode, std::size_t key);
  void HoldNumbers();
  void LoadNumbers();
  void RequireRepresented(const H5File& file, const std::string& path, std::size_t episode,
                          std::span<const float> loaded, std::size_t n_per_step) const;
  void PrepareCache();
  void ReadPictures(std::size_t key, std::int64_t begin, std::int64_t end,
                    std::span<std::byte> out) const;
  void ReadBlock(std::size_t key, std::size_t episode, std::int64_t begin, std::int64_t end,
                 std::span<std::byte> out) const;
  std::int64_t Begin(std::size_t episode) const { return episode == 0 ? 0 : ends_[episode - 1]; }

  double memory_limit_;      // [bytes]
  double held_bytes_ = 0.0;  // by numbers
  DemonstrationFiles files_;
  DatasetSpec spec_;
  std::vector<std::int64_t> ends_;
  std::vector<KeySource> sources_;           // one per key of spec_
  std::unique_ptr<EncodedPictures> rows_;    // decodes picture files
  std::unique_ptr<zarr::ChunkCache> cache_;  // of pictures
};

}  // namespace dp_bench::hdf5
