// A plugin is first sought in the files with its name, because the others may bring large
// libraries: LeRobot's reader brings Arrow and Parquet. Folders are scanned per kind when that
// finds nothing. A file that is in reach of two folders counts once.
#include "plugin/catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <system_error>
#include <tuple>
#include <utility>

#include "config/dataset_format.h"
#include "config/name.h"
#include "core/atomic_file.h"
#include "core/sha256.h"
#include "dp_bench/load_env.h"
#include "plugin/spec_check.h"
#include "plugin/worker_process.h"

namespace dp_bench::plugin {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxPluginBytes = std::size_t{1} << 30;

constexpr PluginKind kKinds[] = {PluginKind::kEnv, PluginKind::kDataset, PluginKind::kDatasetWriter,
                                 PluginKind::kPolicy};

// "libdpb_env_", the beginning of the file names of a kind.
std::string FilePrefix(PluginKind kind) { return "libdpb_" + KindName(kind) + "_"; }

std::string Joined(const std::vector<std::string>& texts) {
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

std::string PluginInfo::Sha256() const {
  return core::Sha256Hex(core::ReadFile(file, kMaxPluginBytes));
}

PluginCatalogue::PluginCatalogue(std::vector<fs::path> search_dirs, FirstTry first_try)
    : search_dirs_(std::move(search_dirs)), first_try_(first_try) {}

std::vector<fs::path> PluginCatalogue::DefaultSearchPath(const std::vector<fs::path>& plugin_dirs) {
  std::vector<fs::path> dirs;
  const auto add_named = [&dirs](const fs::path& dir, const char* source) {
    if (!fs::is_directory(dir)) {
      throw UsageError("{}: the plugin folder '{}' does not exist", source, dir.string());
    }
    dirs.push_back(dir);
  };
  for (const fs::path& dir : plugin_dirs) add_named(dir, "--plugin-dir");
  if (const char* const variable = std::getenv("DP_BENCH_PLUGIN_PATH")) {
    std::istringstream parts(variable);
    for (std::string dir; std::getline(parts, dir, ':');) {
      if (!dir.empty()) add_named(dir, "DP_BENCH_PLUGIN_PATH");
    }
  }
  const fs::path libraries = LibraryFolder();
  dirs.push_back(libraries.parent_path() / "plugins");  // of a build
  dirs.push_back(libraries / "dp_bench" / "plugins");   // of an installation
  dirs.push_back(fs::read_symlink("/proc/self/exe").parent_path() / "plugins");
  if (const char* const home = std::getenv("HOME")) {
    dirs.push_back(fs::path(home) / ".local/share/dp_bench/plugins");
  }
  return dirs;
}

std::vector<PluginInfo> PluginCatalogue::List() {
  const std::lock_guard lock(mutex_);
  for (const PluginKind kind : kKinds) Scan(kind);
  std::vector<PluginInfo> infos;
  for (const Plugin& plugin : plugins_) infos.push_back(plugin.info);
  std::sort(infos.begin(), infos.end(), [](const PluginInfo& a, const PluginInfo& b) {
    return std::tie(a.kind, a.name, a.file) < std::tie(b.kind, b.name, b.file);
  });

  // two good files with the same name are both unusable
  for (std::size_t i = 1; i < infos.size(); ++i) {
    PluginInfo& a = infos[i - 1];
    PluginInfo& b = infos[i];
    if (a.kind != b.kind || a.name != b.name || !b.refused.empty()) continue;
    if (a.refused.empty()) a.refused = "the same name as " + b.file.string();
    b.refused = "the same name as " + a.file.string();
  }
  return infos;
}

PluginInfo PluginCatalogue::LoadFile(const fs::path& file) {
  const std::lock_guard lock(mutex_);
  const PluginHeader* const header = OpenPlugin(file, std::nullopt, first_try_);
  for (const Plugin& plugin : plugins_) {
    if (plugin.header == header) return plugin.info;
  }
  return plugins_
      .emplace_back(Plugin{{static_cast<PluginKind>(header->kind), header->name,
                            header->version ? header->version : "", header->build_id, file, ""},
                           header})
      .info;
}

PluginInfo PluginCatalogue::Find(PluginKind kind, const std::string& name) {
  return FindPlugin(kind, name).info;
}

std::optional<PluginInfo> PluginCatalogue::FindIfPresent(PluginKind kind, const std::string& name) {
  const std::lock_guard lock(mutex_);
  const Plugin* const found = Lookup(kind, name);
  return found == nullptr ? std::nullopt : std::optional(found->info);
}

EnvSpec PluginCatalogue::DescribeEnv(const std::string& name, const Config& params) {
  const Plugin& plugin = FindPlugin(PluginKind::kEnv, name);
  return WatchCall(plugin.info.place(), "Describe", [&] {
    EnvSpec spec = WithSortedKeys(FunctionsOf<Env>(plugin).describe(params));
    params.RejectUnread();
    RequireSound(spec);
    return spec;
  });
}

std::string PluginCatalogue::ReaderOf(const fs::path& path) {
  const std::lock_guard lock(mutex_);
  Scan(PluginKind::kDataset);
  std::vector<std::string> readers;
  for (const Plugin& plugin : plugins_) {
    if (!plugin.header || plugin.info.kind != PluginKind::kDataset) continue;
    const auto recognizes = FunctionsOf<Dataset>(plugin).recognizes;
    if (recognizes == nullptr) continue;
    if (WatchCall(plugin.info.place(), "recognizes", [&] { return recognizes(path); })) {
      readers.push_back(plugin.info.name);
    }
  }
  if (readers.size() > 1) {
    throw UsageError(
        "{}: expected one dataset plugin that recognizes it, found {}. Name the one to use in the "
        "config: dataset.plugin={} dataset.params.path={}",
        path.string(), Joined(readers), readers[0], path.string());
  }
  return readers.empty() ? config::kReplayPlugin : readers[0];
}

bool PluginCatalogue::IsFormatReader(const std::string& plugin) {
  if (plugin == config::kReplayPlugin) return true;
  const std::lock_guard lock(mutex_);
  const Plugin* const found = Lookup(PluginKind::kDataset, plugin);
  return found != nullptr && FunctionsOf<Dataset>(*found).recognizes != nullptr;
}

// Verbs decide with the described spec what to do with the created env.
void PluginCatalogue::RequireDescribed(const std::string& env, const Config& params,
                                       const EnvSpec& created) {
  if (DescribeEnv(env, params) == created) return;
  Error error(ErrorCode::kPlugin,
              "expected the spec that Describe gives for the same params, found another in the "
              "created env. Let its constructor call Describe.");
  error.AddContext(FindPlugin(PluginKind::kEnv, env).info.place().Context("Create"));
  throw error;
}

void PluginCatalogue::Scan(PluginKind kind) {
  if (!scanned_.insert(kind).second) return;
  const std::string prefix = FilePrefix(kind);
  for (const fs::path& dir : search_dirs_) {
    std::vector<fs::path> files;
    std::error_code ignored;  // a default folder may be absent
    for (const fs::directory_entry& entry : fs::directory_iterator(dir, ignored)) {
      const std::string stem = entry.path().stem().string();
      if (stem.starts_with(prefix) && entry.path().extension() == ".so") {
        files.push_back(entry.path());
      }
    }
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) Add(file, kind, file.stem().string().substr(prefix.size()));
  }
}

void PluginCatalogue::Add(const fs::path& file, PluginKind kind, const std::string& name) {
  for (const Plugin& plugin : plugins_) {
    std::error_code ignored;  // a broken link is not a known file
    if (fs::equivalent(plugin.info.file, file, ignored)) return;
  }
  Plugin plugin;
  plugin.info = {.kind = kind, .name = name, .file = file};
  try {
    plugin.header = OpenPlugin(file, kind, first_try_);
    plugin.info.name = plugin.header->name;
    plugin.info.version = plugin.header->version ? plugin.header->version : "";
    plugin.info.build_id = plugin.header->build_id;
  } catch (const Error& error) {
    plugin.info.refused = error.what();
  }
  plugins_.push_back(std::move(plugin));
}

void PluginCatalogue::AddFilesNamed(PluginKind kind, const std::string& name) {
  for (const fs::path& dir : search_dirs_) {
    const fs::path file = dir / (FilePrefix(kind) + name + ".so");
    std::error_code ignored;
    if (fs::exists(file, ignored)) Add(file, kind, name);
  }
}

// Of the loaded ones.
const PluginCatalogue::Plugin* PluginCatalogue::Known(PluginKind kind,
                                                      const std::string& name) const {
  const Plugin* found = nullptr;
  for (const Plugin& plugin : plugins_) {
    if (!plugin.header || plugin.info.kind != kind || plugin.info.name != name) continue;
    if (found) {
      throw PluginError(
          "two files offer the {} plugin '{}': {} and {}. Remove one of them from the search path.",
          KindName(kind), name, found->info.file.string(), plugin.info.file.string());
    }
    found = &plugin;
  }
  return found;
}

const PluginCatalogue::Plugin* PluginCatalogue::Lookup(PluginKind kind, const std::string& name) {
  AddFilesNamed(kind, name);
  if (const Plugin* const found = Known(kind, name)) return found;
  Scan(kind);
  return Known(kind, name);
}

const PluginCatalogue::Plugin& PluginCatalogue::FindPlugin(PluginKind kind,
                                                           const std::string& name) {
  const std::lock_guard lock(mutex_);
  const Plugin* const found = Lookup(kind, name);
  if (found == nullptr) ThrowUnknown(kind, name);
  return *found;
}

void PluginCatalogue::ThrowUnknown(PluginKind kind, const std::string& name) const {
  std::vector<std::string> names;
  if (kind == PluginKind::kDatasetWriter) names.emplace_back(config::kZarrFormat);  // built in
  std::string refused;
  for (const Plugin& plugin : plugins_) {
    if (plugin.info.kind != kind) continue;
    if (plugin.header) {
      names.push_back(plugin.info.name);
    } else {
      refused += "\n  refused: " + plugin.info.refused;
    }
  }
  std::vector<std::string> searched;
  for (const fs::path& dir : search_dirs_) searched.push_back(dir.string());
  throw PluginError("there is no {} plugin '{}'{}. Found: {}. Searched for {}*.so in: {}{}",
                    KindName(kind), name, config::DidYouMean(name, names), Joined(names),
                    FilePrefix(kind), Joined(searched), refused);
}

}  // namespace dp_bench::plugin

namespace dp_bench {

std::unique_ptr<Env> LoadEnv(const Config& env,
                             const std::vector<std::filesystem::path>& plugin_dirs) {
  plugin::PluginCatalogue catalogue(plugin::PluginCatalogue::DefaultSearchPath(plugin_dirs));
  std::unique_ptr<Env> loaded =
      catalogue.Create<Env>(env.Get<std::string>("plugin"), env.Sub("params"));
  env.RejectUnread();
  return loaded;
}

}  // namespace dp_bench
