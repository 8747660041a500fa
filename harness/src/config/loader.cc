// Includes are loaded depth first and merged in the order of the text; the stack of open files
// finds cycles, and the number of files is limited because includes can multiply.
#include "config/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "config/document.h"
#include "config/json_source.h"
#include "config/nearest.h"
#include "config/overrides.h"
#include "core/atomic_file.h"
#include "dp_bench/error.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kMaxConfigFiles = 256;

class IncludeLoader {
 public:
  JsonSource Load(const fs::path& file, const std::string& asked_by = "") {
    CheckCycle(file, asked_by);
    open_.push_back(fs::weakly_canonical(file));
    JsonSource own = ReadJsonSource(file);
    const auto include_origin = own.origins.find("/include");
    const std::string place = include_origin == own.origins.end() ? "" : include_origin->second;

    // includes first, the file's own keys on top of them
    JsonSource merged;
    for (const fs::path& include : IncludePaths(TakeMember("include", &own), place)) {
      const fs::path path = (file.parent_path() / include).lexically_normal();
      if (!fs::exists(path)) {
        throw Error(ErrorCode::kConfig,
                    fmt::format("{}: the included file '{}' does not exist (looked at {})", place,
                                include.string(), path.string()));
      }
      MergeJsonSource(Load(path, place), &merged);
    }
    const std::string origin = own.origins[""];
    MergeJsonSource(std::move(own), &merged);
    merged.origins[""] = origin;
    open_.pop_back();
    return merged;
  }

 private:
  void CheckCycle(const fs::path& file, const std::string& asked_by) {
    if (++n_files_ > kMaxConfigFiles) {
      throw Error(ErrorCode::kConfig, fmt::format("{}: more than {} config files are included",
                                                  asked_by, kMaxConfigFiles));
    }
    const auto cycle = std::find(open_.begin(), open_.end(), fs::weakly_canonical(file));
    if (cycle == open_.end()) return;
    std::vector<std::string> chain;
    for (auto it = cycle; it != open_.end(); ++it) chain.push_back(it->string());
    throw Error(ErrorCode::kConfig,
                fmt::format("{}: the files include each other: {} -> {}", asked_by,
                            fmt::join(chain, " -> "), *chain.begin()));
  }

  static std::vector<fs::path> IncludePaths(const Json& include, const std::string& place) {
    if (include.is_null()) return {};
    if (include.is_string()) return {include.get<std::string>()};
    std::vector<fs::path> paths;
    for (const Json& path : include) {
      if (!include.is_array() || !path.is_string()) {
        paths.clear();
        break;
      }
      paths.emplace_back(path.get<std::string>());
    }
    if (paths.empty() && !(include.is_array() && include.empty())) {
      throw Error(ErrorCode::kConfig,
                  fmt::format("{}: include: wanted a path or an array of paths, found {}", place,
                              Describe(include)));
    }
    return paths;
  }

  std::vector<fs::path> open_;  // files being loaded, outermost first
  int n_files_ = 0;
};

// <config_dir>/<folder>/<name>.json from the first folder that has it.
fs::path FindNamed(const ConfigRequest& request, const std::string& option,
                   const std::string& folder, const std::string& name) {
  std::set<std::string> available;
  std::vector<std::string> searched;
  for (const fs::path& config_dir : request.config_dirs) {
    const fs::path dir = config_dir / folder;
    searched.push_back(dir.string());
    std::error_code ignored;  // a folder that cannot be listed offers nothing
    for (const fs::directory_entry& entry : fs::directory_iterator(dir, ignored)) {
      if (entry.path().extension() != ".json") continue;
      if (entry.path().stem() == name) return entry.path();
      available.insert(entry.path().stem().string());
    }
  }
  const std::vector<std::string> names(available.begin(), available.end());
  const auto nearest = NearestName(name, names);
  throw Error(
      ErrorCode::kConfig,
      fmt::format("{} {}: there is no config of this name{}. Available: {} (in {})", option, name,
                  nearest ? fmt::format("; did you mean '{}'?", *nearest) : "",
                  names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")),
                  searched.empty() ? "no folder" : fmt::format("{}", fmt::join(searched, ", "))));
}

// dataset.params.path, replacing what a config says there.
JsonSource DatasetPath(const std::string& path) {
  JsonSource source;
  source.value["dataset"]["params"]["path"] = path;
  source.origins["/dataset"] = source.origins["/dataset/params"] =
      source.origins["/dataset/params/path"] = "command line: --dataset " + path;
  return source;
}

}  // namespace

Config LoadConfig(const ConfigRequest& request) {
  JsonSource merged;
  merged.origins[""] = "command line";
  const auto add_file = [&merged](const fs::path& file) {
    JsonSource source = IncludeLoader().Load(file);
    merged.origins[""] = source.origins[""];
    MergeJsonSource(std::move(source), &merged);
  };

  if (!request.config.empty()) add_file(request.config);
  if (!request.env.empty()) add_file(FindNamed(request, "--env", "task", request.env));
  if (!request.policy.empty()) add_file(FindNamed(request, "--policy", "policy", request.policy));
  if (!request.dataset.empty()) {
    if (fs::exists(request.dataset)) {
      MergeJsonSource(DatasetPath(request.dataset), &merged);
    } else if (request.dataset.find('/') != std::string::npos) {
      throw Error(ErrorCode::kConfig,
                  fmt::format("--dataset {}: this path does not exist", request.dataset));
    } else {
      add_file(FindNamed(request, "--dataset", "dataset", request.dataset));
    }
  }
  for (const std::string& override_text : request.overrides) ApplyOverride(override_text, &merged);
  return Config(std::make_shared<ConfigDocument>(std::move(merged)));
}

void WriteResolvedConfig(const Config& config, const fs::path& path) {
  WriteFileAtomically(path, config.ToJson() + "\n");
}

}  // namespace dp_bench
