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
#include "dp_bench/dataset.h"
#include "episode_rows.h"
#include "lerobot_config.h"

namespace dp_bench::lerobot {

class LeRobotDataset final : public Dataset {
 public:
  static std::unique_ptr<Dataset> Create(const Config& params);

  /// Checks everything in meta/, reads all numbers, and checks that each episode has all its
  /// frames, at their times. Throws Error{kData} or Error{kIo} for faults of the files,
  /// Error{kConfig} for keys that do not fit the features and for a limit that is too low.
  explicit LeRobotDataset(const LeRobotConfig& config);

  const DatasetSpec& spec() const override { return spec_; }
  std::span<const std::int64_t> episode_ends() const override { return selection_.ends(); }

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

  void AddKey(const std::string& name, const Feature& feature, const KeyConfig& config);
  void HoldNumbers();
  void OpenCameras();
  std::int64_t ScratchBytes() const;
  void ReadNumbers(const KeySource& source, std::int64_t begin, std::int64_t end,
                   std::span<std::byte> out) const;
  void ReadPictures(RecordedCamera& camera, std::size_t picture_bytes, std::int64_t begin,
                    std::int64_t end, std::span<std::byte> out) const;

  double memory_limit_;      // [bytes]
  double held_bytes_ = 0.0;  // by numbers
  double tolerance_;         // [s] of frames of videos
  Metadata metadata_;
  EpisodeSelection selection_;
  DatasetSpec spec_;
  std::map<std::string, Numbers> numbers_;     // by feature
  std::map<std::string, StatedRange> ranges_;  // by feature, as meta/ says
  std::vector<CameraRequest> requests_;
  RowTimes times_;
  PictureRows picture_rows_;
  std::unique_ptr<zarr::ChunkCache> cache_;  // of decoded pictures
  std::vector<std::unique_ptr<RecordedCamera>> cameras_;
  std::vector<KeySource> sources_;  // one per key of spec_
};

}  // namespace dp_bench::lerobot
