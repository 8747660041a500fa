// The datasets in tests/data/lerobot, which LeRobot wrote: three episodes of 12, 9 and 12 steps
// with images of 32 x 24 pixels; tests/golden/generate/lerobot_datasets.py.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/temporary_folder.h"
#include "lerobot_dataset.h"
#include "support/read_all.h"

namespace dp_bench::lerobot::testing {

namespace fs = std::filesystem;

inline fs::path SmallFolder(const std::string& name) {
  return fs::path(DPB_SOURCE_DIR) / "tests/data/lerobot" / name;
}

inline std::string ReadText(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline void WriteText(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

/// A copy that a test may change.
class CopiedFolder {
 public:
  explicit CopiedFolder(const std::string& name) {
    fs::copy(SmallFolder(name), path(), fs::copy_options::recursive);
  }

  fs::path path() const { return folder_.path() / "data"; }

  /// Replaces all occurrences of `from` in a file. Fails if there is none.
  void Replace(const std::string& file, const std::string& from, const std::string& to) const {
    std::string text = ReadText(path() / file);
    std::size_t n = 0;
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
      text.replace(at, from.size(), to);
      ++n;
    }
    if (n == 0) throw std::runtime_error(file + " does not contain " + from);
    WriteText(path() / file, text);
  }

 private:
  core::TemporaryFolder folder_;
};

}  // namespace dp_bench::lerobot::testing
