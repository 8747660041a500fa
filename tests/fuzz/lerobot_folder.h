// Copies of the datasets in tests/data/lerobot, in which the targets replace one file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "core/temporary_folder.h"
#include "fuzz.h"
#include "lerobot_dataset.h"

namespace dp_bench::fuzz {

class LeRobotFolder {
 public:
  explicit LeRobotFolder(const std::string& name) {
    std::filesystem::copy(std::filesystem::path(DPB_SOURCE_DIR) / "tests/data/lerobot" / name,
                          path(), std::filesystem::copy_options::recursive);
  }

  std::filesystem::path path() const { return folder_.path() / "data"; }

  /// Opens the dataset, with times that may be a second off, with other bytes in `file`, and reads
  /// the first and the last step of every key. Afterwards the file is as before.
  void ReadWith(const std::string& file, std::span<const std::byte> bytes) const {
    const std::filesystem::path place = path() / file;
    const std::filesystem::path original = folder_.path() / "original";
    std::filesystem::rename(place, original);
    std::ofstream(place, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    Accepts([&] { ReadEdges(); });
    std::filesystem::rename(original, place);
  }

 private:
  void ReadEdges() const {
    const lerobot::LeRobotDataset dataset(
        {.path = path(), .tolerance_s = 1.0, .memory_limit_mb = 16});
    const DatasetSpec& spec = dataset.spec();
    for (std::size_t key = 0; key < spec.keys.size(); ++key) {
      std::vector<std::byte> step(spec.keys[key].ByteSize());
      const std::int64_t last = dataset.episode_ends().back() - 1;
      for (const std::int64_t at : {std::int64_t{0}, last}) {
        Accepts([&] { dataset.Read(static_cast<int>(key), at, at + 1, step); });
      }
    }
  }

  core::TemporaryFolder folder_;
};

}  // namespace dp_bench::fuzz
