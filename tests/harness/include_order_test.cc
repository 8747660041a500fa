// The folders of harness/src form layers: each includes the SDK, itself and the folders before it
// in docs/architecture.md. Plugins include the SDK and their own folder.
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

const std::vector<std::string> kLayers = {"core",   "config",     "plugin",  "media",   "data",
                                          "policy", "run",        "train",   "rollout", "compare",
                                          "report", "experiment", "inspect", "view",    "app"};

int LayerOf(const std::string& folder) {
  const auto it = std::find(kLayers.begin(), kLayers.end(), folder);
  return it == kLayers.end() ? -1 : static_cast<int>(it - kLayers.begin());
}

// The first folder of every #include "folder/file.h" in a C++ file.
std::vector<std::string> IncludedFolders(const fs::path& file) {
  static const std::regex kInclude(R"re(^#include "([a-z_0-9]+)/.*")re");
  std::vector<std::string> folders;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (std::smatch match; std::regex_search(line, match, kInclude)) folders.push_back(match[1]);
  }
  return folders;
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
      for (const std::string& included : IncludedFolders(entry.path())) {
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

// A plugin may also include the folders below its own.
TEST(IncludeOrder, PluginsIncludeTheSdkAndThemselves) {
  const fs::path plugins = fs::path(DPB_SOURCE_DIR) / "plugins";
  for (const auto& entry : fs::recursive_directory_iterator(plugins)) {
    if (!IsSource(entry.path())) continue;
    const fs::path file = fs::relative(entry.path(), plugins);
    const fs::path own = plugins / *file.begin() / *std::next(file.begin());
    for (const std::string& included : IncludedFolders(entry.path())) {
      EXPECT_TRUE(included == "dp_bench" || fs::is_directory(own / included))
          << entry.path() << " includes " << included << "/";
    }
  }
}

}  // namespace
