// The folders of harness/src form layers: each includes the SDK, itself and the folders before it
// in docs/architecture.md, and of the libraries that are slow to compile or load only those that
// its README names. Plugins include the SDK, kSharedFolders and their own folder.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kLayers = {
    "core",     "config",  "ranks",   "plugin", "media", "data",    "policy",  "graph",
    "control",  "run",     "wire",    "net",    "serve", "remote",  "rollout", "planner",
    "deploy",   "train",   "compare", "report", "suite", "interop", "task",    "evaluate",
    "diagnose", "inspect", "profile", "view",   "app"};

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

// Libraries that take time to compile or to load, by the beginnings of their headers.
const std::vector<std::pair<std::string, std::vector<std::string>>> kHeavyLibraries = {
    {"LibTorch",
     {"torch/", "ATen/", "c10/", "dp_bench/policy", "dp_bench/tensor.h", "dp_bench/normalizer.h",
      "dp_bench/noise_scheduler.h"}},
    {"Arrow", {"arrow/", "parquet/"}},
    {"Beast", {"boost/asio", "boost/beast"}},
    {"ZeroMQ", {"zmq"}},
    {"libav", {"libav", "libsw"}},
    {"cairo", {"cairo"}},
    {"MPI", {"mpi.h"}},
    {"GLFW", {"GLFW/"}},
    {"HDF5", {"hdf5", "H5"}},
    {"OpenVINO", {"openvino/"}}};

std::string ReadText(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// The libraries in "May include: LibTorch, MPI." of the folder's README, or else of the one above
// it.
std::string MayInclude(const fs::path& folder) {
  if (!fs::exists(folder / "README.md")) return MayInclude(folder.parent_path());
  const std::string readme = ReadText(folder / "README.md");
  std::smatch match;
  static const std::regex kLine("May include: ([^.]*)\\.");
  return std::regex_search(readme, match, kLine) ? match.str(1) : "";
}

TEST(IncludeOrder, AFolderIncludesOnlyTheHeavyLibrariesOfItsReadme) {
  static const std::regex kInclude(R"re(#include ["<]([^">]+)[">])re");
  int n_heavy = 0;
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(DPB_SOURCE_DIR) / "harness/src")) {
    if (!IsSource(entry.path())) continue;
    const std::string text = ReadText(entry.path());
    const std::string allowed = MayInclude(entry.path().parent_path());
    for (std::sregex_iterator it(text.begin(), text.end(), kInclude), end; it != end; ++it) {
      for (const auto& [library, beginnings] : kHeavyLibraries) {
        const std::string header = (*it)[1];
        if (std::ranges::none_of(beginnings, [&](const std::string& beginning) {
              return header.starts_with(beginning);
            })) {
          continue;
        }
        EXPECT_NE(allowed.find(library), std::string::npos)
            << entry.path() << " includes " << header << "; its folder's README allows '" << allowed
            << "'";
        ++n_heavy;
      }
    }
  }
  EXPECT_GT(n_heavy, 50) << "the pattern no longer finds includes";
}

// What a plugin may link: it brings in nothing else of the harness.
const std::vector<fs::path> kSharedFolders = {"data/reader", "data/zarr", "data/lerobot",
                                              "data/hdf5"};
// of a folder that plugins do not share
const fs::path kSharedHeader = "remote/remote_client.h";

bool IsShared(const fs::path& include) {
  return include == kSharedHeader ||
         std::ranges::find(kSharedFolders, include.parent_path()) != kSharedFolders.end();
}

TEST(IncludeOrder, HeadersThatPluginsShareIncludeTheSdkAndThemselves) {
  const fs::path root = fs::path(DPB_SOURCE_DIR) / "harness/src";
  std::vector<fs::path> headers = {root / kSharedHeader};
  for (const fs::path& shared : kSharedFolders) {
    for (const auto& entry : fs::directory_iterator(root / shared)) {
      if (entry.path().extension() == ".h") headers.push_back(entry.path());
    }
  }
  for (const fs::path& header : headers) {
    for (const fs::path& include : IncludesOf(header)) {
      EXPECT_TRUE(*include.begin() == "dp_bench" || IsShared(include))
          << header << " includes " << include;
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
