// LeRobot datasets, versions 2.0, 2.1 and 3.0, as they are on disk. Numbers are read once and kept
// in memory as float32. Images are decoded when they are read, and decoded images are kept as
// far as a memory limit allows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/lerobot/camera.h"
#include "data/lerobot/metadata.h"
#include "data/reader/keyed_dataset.h"
#include "episode_rows.h"

namespace dp_bench::lerobot {

/// {"path": "lerobot/pusht", "keys": {"agent_pos": {"feature": "observation.state"}, "action":
/// {"feature": "action", "names": ["x", "y"]}, "image": {"feature": "observation.image"}}}. Without
/// "keys", a dataset that dp_bench wrote has the keys that it was written from. Of any other,
/// every feature with numbers or images is a key, except LeRobot's own columns and next.*; its
/// name loses the beginning "observation.images." or "observation.".
struct LeRobotConfig {
  std::filesystem::path path;
  reader::KeyConfigs keys;
  std::vector<std::string> tasks;
  double tolerance_s = 1e-4;
  std::optional<double> row_tolerance_s = {};
  double memory_limit_mb = 4096.0;

  static LeRobotConfig FromConfig(const Config& params);
};

class LeRobotDataset final : public reader::KeyedDataset {
 public:
  static std::unique_ptr<Dataset> Create(const Config& params);

  /// Checks everything in meta/, reads all numbers, and checks that each episode has all its
  /// frames, at their times. Throws Error{kData} or Error{kIo} for faults of the files,
  /// Error{kConfig} for keys that do not fit the features and for a limit that is too low.
  explicit LeRobotDataset(const LeRobotConfig& config);

  /// The first task of an episode; empty if it has none.
  std::string Task(std::int64_t episode) const override;
  std::string FeatureName(int key) const override;
  std::vector<std::string> ChannelNames(int key) const override;
  /// None if only episodes with some tasks are read.
  std::optional<StatedRange> RecordedRange(int key) const override;

 private:
  struct KeySource {
    const Feature* feature = nullptr;
    const Numbers* numbers = nullptr;        // of low_dim keys
    std::optional<DepthScale> depth;         // of depth keys
    std::unique_ptr<RecordedCamera> camera;  // of keys with images
  };

  void AddKey(const std::string& name, const Feature& feature, const reader::KeyConfig& config);
  void TellSeveralTasks() const;
  void HoldNumbers();
  void OpenCameras();
  std::int64_t ScratchBytes() const;

  /// Decodes images; throws Error{kData} or Error{kMedia} if one is damaged, or if a video has no
  /// frame at its time.
  void ReadImages(std::size_t key, std::int64_t begin, std::int64_t end,
                  std::span<std::byte> out) const override;

  reader::MemoryBudget memory_;
  double tolerance_;  // [s] of frames of videos
  Metadata metadata_;
  EpisodeSelection selection_;
  std::map<std::string, Numbers> numbers_;     // by feature
  std::map<std::string, StatedRange> ranges_;  // by feature, as meta/ says
  RowTimes times_;
  ImageRows image_rows_;
  std::vector<RowTask> row_tasks_;  // by episode of the dataset; none if the rows say none
  std::unique_ptr<reader::ChunkCache> cache_;  // of decoded images
  std::vector<KeySource> sources_;             // one per key of spec_
  mutable std::once_flag has_told_tasks_;
};

}  // namespace dp_bench::lerobot
