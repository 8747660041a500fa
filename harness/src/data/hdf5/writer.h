// Writes HDF5 files with robomimic's layout, or with ACT's (data/hdf5/demonstrations.h), at first
// as one file per episode (data/reader/unfinished_dataset.h). With ACT's layout, these files are
// the dataset; with robomimic's, Finish copies them into one.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/hdf5/h5_file.h"
#include "data/reader/unfinished_dataset.h"
#include "dp_bench/dataset_writer.h"

namespace dp_bench::hdf5 {

/// {"path": "demos.hdf5", "source": "...", "layout": "robomimic", "gzip": 0, "names":
/// {"agent_pos": "qpos"}}.
struct Hdf5WriterConfig {
  std::filesystem::path path;
  std::string source;
  bool is_act = false;
  int gzip = 0;                                                   // 0 does not compress
  std::map<std::string, std::string> names;                       // of arrays, by key
  std::map<std::string, std::vector<std::string>> channels = {};  // names of numbers, by key

  static Hdf5WriterConfig FromConfig(const Config& params);
};

class Hdf5Writer final : public DatasetWriter {
 public:
  static std::unique_ptr<DatasetWriter> Create(const Config& params, const DatasetSpec& spec);

  Hdf5Writer(Hdf5WriterConfig config, const DatasetSpec& spec);
  ~Hdf5Writer() override;

  std::int64_t n_episodes() const override { return n_episodes_; }
  void BeginEpisode(const EpisodeHead& head) override;
  void Append(std::span<const std::span<const std::byte>> values) override;
  void Finish() override;
  std::vector<std::string> Notes() const override;

 private:
  // An array of the episode that is written.
  struct Track {
    std::string array;            // below the group of the episode
    Handle dataset;               // while the episode is written
    std::vector<std::byte> rows;  // that are not written yet
    std::int64_t n_written = 0;
  };

  std::string ArrayOf(const KeySpec& key) const;
  nlohmann::json Identity() const;
  std::filesystem::path EpisodeFile(std::int64_t episode) const;
  Handle CreateFile(const std::filesystem::path& path) const;
  void CreateArray(hid_t file, const KeySpec& key, Track* track) const;
  void WriteRows(const KeySpec& key, Track* track) const;
  void EndEpisode();
  void CloseEpisode();
  void JoinEpisodes(const std::filesystem::path& path) const;

  Hdf5WriterConfig config_;
  DatasetSpec spec_;
  std::unique_ptr<reader::UnfinishedDataset> unfinished_;
  std::int64_t n_episodes_ = 0;
  EpisodeHead head_;  // of the current episode
  std::int64_t n_appended_ = 0;
  std::filesystem::path temporary_;
  Handle file_;
  std::vector<Track> tracks_;  // one per key
};

}  // namespace dp_bench::hdf5
