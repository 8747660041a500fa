// LeRobot data sets, versions 2.0, 2.1 and 3.0, as they are on disk. Numbers are read once and kept
// in memory as float32. Pictures are decoded when they are read, and decoded pictures are kept as
// far as a memory limit allows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/lerobot/camera.h"
#include "data/lerobot/metadata.h"
#include "data/zarr/chunk_cache.h"
#include "data/zarr/page_buffer.h"
#include "dp_bench/dataset.h"

namespace dp_bench::lerobot {

class ParquetFile;

/// The source of a key.
struct KeyConfig {
  std::string feature;
  std::optional<KeyType> type;        // none: what info.json says
  std::vector<std::string> names;     // the channels, in this order; none for all
  std::optional<std::int64_t> begin;  // or a range of them
  std::optional<std::int64_t> end;
  Shape shape;                         // of the key, if its numbers are not a list
  std::optional<double> mm_per_level;  // depth in pictures of 8 bits
};

/// {"path": "lerobot/pusht", "keys": {"agent_pos": {"feature": "observation.state"}, "action":
/// {"feature": "action", "names": ["x", "y"]}, "image": {"feature": "observation.image"}}}. Without
/// "keys", a data set that dp_bench wrote has the keys that it was written from. Of any other,
/// every feature with numbers or pictures is a key, except LeRobot's own columns and next.*; its
/// name loses the beginning "observation.images." or "observation.".
struct LeRobotConfig {
  std::filesystem::path path;
  std::map<std::string, KeyConfig> keys;
  std::vector<std::string> tasks;
  double tolerance_s = 1e-4;
  double memory_limit_mb = 4096.0;

  static LeRobotConfig FromConfig(const Config& params);
};

class LeRobotDataset final : public Dataset, public DatasetLabels {
 public:
  static std::unique_ptr<Dataset> Create(const Config& params);

  /// Checks everything in meta/, reads all numbers, and checks that each episode has all its
  /// frames, at their times. Throws Error{kData} or Error{kIo} for faults of the files,
  /// Error{kConfig} for keys that do not fit the features and for a limit that is too low.
  explicit LeRobotDataset(const LeRobotConfig& config);

  const DatasetSpec& spec() const override { return spec_; }
  std::span<const std::int64_t> episode_ends() const override { return episode_ends_; }

  /// Decodes pictures; throws Error{kData} or Error{kMedia} if one is damaged, or if a video has no
  /// frame at its time.
  void Read(int key, std::int64_t begin, std::int64_t end, std::span<std::byte> out) const override;

  /// The first task of an episode; empty if it has none.
  std::string Task(std::int64_t episode) const override;
  std::string FeatureName(int key) const override;
  std::vector<std::string> ChannelNames(int key) const override;
  /// None if only episodes with some tasks are read.
  std::optional<StatedRange> RecordedRange(int key) const override;

 private:
  // All numbers of a feature, float32 [steps, n].
  struct Numbers {
    std::size_t n = 0;
    zarr::PageBuffer buffer;
  };

  // A key with pictures, before its files are open.
  struct CameraRequest {
    std::size_t key;  // index in spec_.keys
    const Feature* feature;
    std::optional<DepthScale> depth;
  };

  struct KeySource {
    const Feature* feature = nullptr;
    const Numbers* numbers = nullptr;   // of low_dim keys
    std::vector<std::size_t> channels;  // of numbers; empty for all
    RecordedCamera* camera = nullptr;   // of other keys
  };

  void SelectEpisodes(const std::vector<std::string>& tasks);
  std::map<std::string, KeyConfig> FindKeys() const;
  std::map<std::string, KeyConfig> KeysOfFeatures() const;
  const Feature& FindFeature(const std::string& key, const std::string& feature) const;
  void AddNumbersKey(const std::string& name, const Feature& feature, const KeyConfig& config);
  void AddCameraKey(const std::string& name, const Feature& feature, const KeyConfig& config);
  void LoadRows();
  void LoadFile(const FileNumber& number, std::vector<bool>* is_filled);
  std::vector<std::int64_t> StepsOfRows(const FileNumber& number, ParquetFile& file, int row_group,
                                        std::vector<bool>* is_filled) const;
  void RequireFinite(const std::string& where, const std::string& feature,
                     std::span<const float> values, std::span<const std::int64_t> steps) const;
  void OpenCameras();
  std::int64_t ScratchBytes() const;
  std::int64_t BeginOf(std::size_t place) const;  // first step of an episode of episodes_
  FrameId FrameAt(std::int64_t step) const;
  void ReadNumbers(const KeySource& source, std::int64_t begin, std::int64_t end,
                   std::span<std::byte> out) const;
  void ReadPictures(RecordedCamera& camera, std::size_t picture_bytes, std::int64_t begin,
                    std::int64_t end, std::span<std::byte> out) const;

  double memory_limit_;      // [bytes]
  double held_bytes_ = 0.0;  // by numbers
  double tolerance_;         // [s]
  Metadata metadata_;
  DatasetSpec spec_;
  std::vector<std::int64_t> episodes_;          // the selected ones
  std::vector<std::int64_t> episode_ends_;      // of these, in steps
  std::map<std::int64_t, std::size_t> places_;  // of episodes in episodes_
  std::map<std::string, Numbers> numbers_;      // by feature
  std::map<std::string, StatedRange> ranges_;   // by feature, as meta/ says
  std::vector<CameraRequest> requests_;
  PictureRows picture_rows_;
  std::unique_ptr<zarr::ChunkCache> cache_;  // of decoded pictures
  std::vector<std::unique_ptr<RecordedCamera>> cameras_;
  std::vector<KeySource> sources_;  // one per key of spec_
};

}  // namespace dp_bench::lerobot
