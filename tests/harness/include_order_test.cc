// The folders of harness/src form layers: each includes the SDK, itself and the folders before it
// in docs/architecture.md. Plugins include the SDK, kSharedFolders and their own folder.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kLayers = {
    "core",  "config",  "plugin",  "media",  "data",       "policy",  "graph", "run",
    "train", "rollout", "compare", "report", "experiment", "inspect", "view",  "app"};

int LayerOf(const std::string& folder) {
  const auto it = std::find(kLayers.begin(), kLayers.end(), folder);
  return it == kLayers.end() ? -1 : static_cast<int>(it - kLayers.begin());
}

// "folder/file.h" of every #include of a C++ file that names a folder.
std::vector<fs::path> IncludesOf(const fs::path& file) {
  static const std::regex kInclude(R"re(^#include "([a-z_0-9]+/.*)")re");
  std::vector<fs::path> includes;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (std::smatch match; std::regex_search(line, match, kInclude))
      includes.push_back(match.str(1));
  }
  return includes;
}

bool IsSource(const fs::path& file) {
  return file.extension() == ".h" || file.extension() == ".cc";
}

TEST(IncludeOrder, HarnessFoldersIncludeOnlyThoseBeforeThem) {
  int n_includes = 0;
  for (const std::string& folder : kLayers) {
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(DPB_SOURCE_DIR) / "harness/src" / folder)) {
      if (!IsSource(entry.path())) continue;
      for (const fs::path& include : IncludesOf(entry.path())) {
        const std::string included = *include.begin();
        if (included == "dp_bench") continue;
        EXPECT_LE(LayerOf(included), LayerOf(folder))
            << entry.path() << " includes " << included << "/";
        EXPECT_GE(LayerOf(included), 0) << entry.path() << " includes " << included << "/";
        ++n_includes;
      }
    }
  }
  EXPECT_GT(n_includes, 50) << "the pattern no longer finds includes";
}

TEST(IncludeOrder, EveryFolderOfTheHarnessHasAPlaceInTheOrder) {
  for (const auto& entry : fs::directory_iterator(fs::path(DPB_SOURCE_DIR) / "harness/src")) {
    EXPECT_GE(LayerOf(entry.path().filename()), 0) << entry.path();
  }
}

// What a plugin may link: it brings in nothing else of the harness.
const std::vector<fs::path> kSharedFolders = {"data/reader", "data/zarr", "data/lerobot",
                                              "data/hdf5"};

bool IsShared(const fs::path& include) {
  return std::ranges::find(kSharedFolders, include.parent_path()) != kSharedFolders.end();
}

TEST(IncludeOrder, HeadersThatPluginsShareIncludeTheSdkAndThemselves) {
  for (const fs::path& shared : kSharedFolders) {
    for (const auto& entry :
         fs::directory_iterator(fs::path(DPB_SOURCE_DIR) / "harness/src" / shared)) {
      if (entry.path().extension() != ".h") continue;
      for (const fs::path& include : IncludesOf(entry.path())) {
        EXPECT_TRUE(*include.begin() == "dp_bench" || IsShared(include))
            << entry.path() << " includes " << include;
      }
    }
  }
}

// A plugin may also include the folders below its own.
TEST(IncludeOrder, PluginsIncludeTheSdkSharedFoldersAndThemselves) {
  const fs::path plugins = fs::path(DPB_SOURCE_DIR) / "plugins";
  for (const auto& entry : fs::recursive_directory_iterator(plugins)) {
    if (!IsSource(entry.path())) continue;
    const fs::path file = fs::relative(entry.path(), plugins);
    const fs::path own = plugins / *file.begin() / *std::next(file.begin());
    for (const fs::path& include : IncludesOf(entry.path())) {
      EXPECT_TRUE(*include.begin() == "dp_bench" || IsShared(include) ||
                  fs::is_directory(own / *include.begin()))
          << entry.path() << " includes " << include;
    }
  }
}

TEST(IncludeOrder, HeadersOfTheSdkAreInQuotes) {
  for (const char* folder : {"harness", "plugins", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(DPB_SOURCE_DIR) / folder)) {
      if (!IsSource(entry.path())) continue;
      std::ifstream stream(entry.path());
      for (std::string line; std::getline(stream, line);) {
        EXPECT_FALSE(line.starts_with("#include <dp_bench/")) << entry.path() << ": " << line;
      }
    }
  }
}

}  // namespace
