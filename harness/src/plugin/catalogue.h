// Finds plugins and creates objects from them. Files are named libdpb_<kind>_<anything>.so, so that
// looking for an env does not load policies and LibTorch.
#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/dataset_format.h"
#include "core/errors.h"
#include "dp_bench/config.h"
#include "dp_bench/plugin.h"
#include "plugin/guard.h"
#include "plugin/library.h"

namespace dp_bench::plugin {

struct PluginInfo {
  PluginKind kind = PluginKind::kEnv;
  std::string name;  // for a refused file, the part of its name after the kind
  std::string version;
  std::string build_id;
  std::filesystem::path file;
  std::string refused;  // why it cannot be used; empty for a good one

  PluginPlace place() const { return {kind, name, file}; }
  /// Of the file, 64 hexadecimal digits. Throws Error{kIo}.
  std::string Sha256() const;
};

/// The plugins in a list of folders. Every method may be called from several threads at once.
class PluginCatalogue final : public config::DatasetReaders {
 public:
  explicit PluginCatalogue(std::vector<std::filesystem::path> search_dirs,
                           FirstTry first_try = FirstTry::kInChild);

  /// `plugin_dirs` of the command line, then DP_BENCH_PLUGIN_PATH (separated by colons), then the
  /// folders of the build or installation that dp_bench's libraries belong to and that of the
  /// executable, then ~/.local/share/dp_bench/plugins. Throws Error{kUsage} if a folder that the
  /// user named does not exist.
  static std::vector<std::filesystem::path> DefaultSearchPath(
      const std::vector<std::filesystem::path>& plugin_dirs);

  /// All plugin files of the search path, sorted by kind and name. Refused ones have the reason.
  std::vector<PluginInfo> List();

  /// Adds one file, from any folder and with any name. Throws Error{kPlugin} if it is refused.
  PluginInfo LoadFile(const std::filesystem::path& file);

  /// The plugin of this kind and name. If a file libdpb_<kind>_<name>.so has it, the other files
  /// stay unloaded. Throws Error{kPlugin} if there is none, with the names of the others, and if
  /// there are two, with both files.
  PluginInfo Find(PluginKind kind, const std::string& name);

  /// The same; none if there is none.
  std::optional<PluginInfo> FindIfPresent(PluginKind kind, const std::string& name);

  /// The spec of the env that Create<Env>(name, params) would make. Throws Error{kConfig} for
  /// params that the plugin did not read.
  EnvSpec DescribeEnv(const std::string& name, const Config& params);

  std::string ReaderOf(const std::filesystem::path& path) override;
  bool IsFormatReader(const std::string& plugin) override;

  /// Creates an instance whose every call is guarded. `args` follow the params as in PluginTraits
  /// (a PolicySpec for policies, whose guard is in plugin/guarded_policy.h). Throws Error{kConfig}
  /// for params that the plugin did not read while it was created.
  template <class Interface, class... Args>
  std::unique_ptr<Interface> Create(const std::string& name, const Config& params,
                                    const Args&... args);

  /// The same without the guard of its calls: what the plugin itself does with a wrong call.
  template <class Interface, class... Args>
  std::unique_ptr<Interface> CreateBare(const std::string& name, const Config& params,
                                        const Args&... args);

 private:
  struct Plugin {
    PluginInfo info;
    const PluginHeader* header = nullptr;  // null for a refused one
  };

  // The functions of a good plugin of this kind: its header was checked, and is the first member of
  // the entry.
  template <class Interface>
  static const auto& FunctionsOf(const Plugin& plugin) {
    return reinterpret_cast<const PluginEntry<Interface>*>(plugin.header)->functions;
  }

  void Scan(PluginKind kind);
  void AddFilesNamed(PluginKind kind, const std::string& name);
  void Add(const std::filesystem::path& file, PluginKind kind, const std::string& name);
  const Plugin* Known(PluginKind kind, const std::string& name) const;
  const Plugin* Lookup(PluginKind kind, const std::string& name);
  const Plugin& FindPlugin(PluginKind kind, const std::string& name);
  void RequireDescribed(const std::string& env, const Config& params, const EnvSpec& created);
  [[noreturn]] void ThrowUnknown(PluginKind kind, const std::string& name) const;

  const std::vector<std::filesystem::path> search_dirs_;
  const FirstTry first_try_;
  std::mutex mutex_;
  std::set<PluginKind> scanned_;
  std::deque<Plugin> plugins_;  // a deque, because references to its elements stay valid
};

template <class Interface, class... Args>
std::unique_ptr<Interface> PluginCatalogue::Create(const std::string& name, const Config& params,
                                                   const Args&... args) {
  auto object = GuardPlugin(CreateBare<Interface>(name, params, args...),
                            FindPlugin(PluginTraits<Interface>::kKind, name).info.place(), args...);
  if constexpr (PluginTraits<Interface>::kKind == PluginKind::kEnv) {
    RequireDescribed(name, params, object->spec());
  }
  return object;
}

template <class Interface, class... Args>
std::unique_ptr<Interface> PluginCatalogue::CreateBare(const std::string& name,
                                                       const Config& params, const Args&... args) {
  const Plugin& plugin = FindPlugin(PluginTraits<Interface>::kKind, name);
  return WatchCall(plugin.info.place(), "Create", [&] {
    auto created = FunctionsOf<Interface>(plugin).create(params, args...);
    if (!created) {
      throw PluginError("expected a new object, found null: the plugin created nothing");
    }
    params.RejectUnread();
    return created;
  });
}

}  // namespace dp_bench::plugin
