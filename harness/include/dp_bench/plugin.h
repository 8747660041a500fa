// What makes a shared library a plugin: one C-layout header, one export, no static constructors.
// The host reads the header before it uses any C++ type, so the header must stay in C layout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "dp_bench/build_id.h"
#include "dp_bench/config.h"
#include "dp_bench/spec.h"

namespace dp_bench {

inline constexpr std::uint32_t kPluginMagic = 0x44504250;  // "DPBP"

/// The binary interface of the SDK. A plugin with the same number works with every later version of
/// dp_bench; tests/abi checks it.
inline constexpr std::uint32_t kAbiVersion = 8;

enum class PluginKind : std::uint32_t { kEnv = 1, kDataset = 2, kPolicy = 3, kDatasetWriter = 4 };

/// The C layout at the start of a plugin's entry. The host checks it before it uses any C++ type.
struct PluginHeader {
  std::uint32_t magic;        // kPluginMagic
  std::uint32_t abi_version;  // kAbiVersion of the SDK this was built with
  std::uint32_t kind;         // PluginKind as a number
  const char* build_id;       // toolchain and SDK fingerprint (build_id.h)
  const char* name;           // unique within its kind, snake_case
  const char* version;        // the plugin's own semantic version
};

class Env;
struct EnvSpec;
class Dataset;
class DatasetWriter;
struct DatasetSpec;
class Policy;
struct PolicySpec;

/// The functions of a plugin of each kind.
template <class Interface>
struct PluginTraits;

template <>
struct PluginTraits<Env> {
  static constexpr PluginKind kKind = PluginKind::kEnv;
  static constexpr const char* kBuildId = kCoreBuildId;
  struct Functions {
    /// The spec of the env that `create` would make. Reads every param that `create` reads; creates
    /// no simulation, window or graphics context.
    EnvSpec (*describe)(const Config& params);
    std::unique_ptr<Env> (*create)(const Config& params);
  };
};

template <>
struct PluginTraits<Dataset> {
  static constexpr PluginKind kKind = PluginKind::kDataset;
  static constexpr const char* kBuildId = kCoreBuildId;
  struct Functions {
    std::unique_ptr<Dataset> (*create)(const Config& params);
    /// Whether the file or folder of `--dataset PATH` is of this reader's format: judged by names
    /// and first bytes, for any path, also one that does not exist. Without it, only configs that
    /// name the plugin use it.
    bool (*recognizes)(const std::filesystem::path& path) = nullptr;
  };
};

template <>
struct PluginTraits<DatasetWriter> {
  static constexpr PluginKind kKind = PluginKind::kDatasetWriter;
  static constexpr const char* kBuildId = kCoreBuildId;
  struct Functions {
    std::unique_ptr<DatasetWriter> (*create)(const Config& params, const DatasetSpec& spec);
  };
};

template <>
struct PluginTraits<Policy> {
  static constexpr PluginKind kKind = PluginKind::kPolicy;
  static constexpr const char* kBuildId = kTorchBuildId;
  struct Functions {
    std::unique_ptr<Policy> (*create)(const Config& params, const PolicySpec& spec);
  };
};

/// What a plugin exports: one per interface.
template <class Interface>
struct PluginEntry {
  PluginHeader header;
  typename PluginTraits<Interface>::Functions functions;
};

/// &CreateInstance<Env, MyEnv> is a `create` function for a class whose constructor takes the same
/// arguments.
template <class Interface, class Implementation, class... Args>
std::unique_ptr<Interface> CreateInstance(const Args&... args) {
  return std::make_unique<Implementation>(args...);
}

}  // namespace dp_bench

// dpb_add_plugin() defines DPB_PLUGIN_NAME as its NAME. With another name in the source, which a
// copied project easily has, the plugin would stand for another one.
#ifdef DPB_PLUGIN_NAME
#define DPB_REQUIRE_NAME_OF_BUILD(name)                      \
  static_assert(std::string_view(name) == DPB_PLUGIN_NAME,   \
                "the name in DPB_EXPORT_PLUGIN must be the " \
                "NAME of dpb_add_plugin in CMakeLists.txt: " DPB_PLUGIN_NAME)
#else
#define DPB_REQUIRE_NAME_OF_BUILD(name) static_assert(true)
#endif

/// Expands to the library's only export. After the version, pass the functions of
/// PluginTraits<Interface>::Functions.
#define DPB_EXPORT_PLUGIN(Interface, name, version, ...)                            \
  DPB_REQUIRE_NAME_OF_BUILD(name);                                                  \
  extern "C" __attribute__((visibility("default"))) const ::dp_bench::PluginHeader* \
  dp_bench_plugin() noexcept {                                                      \
    static const ::dp_bench::PluginEntry<Interface> entry = {                       \
        {::dp_bench::kPluginMagic, ::dp_bench::kAbiVersion,                         \
         static_cast<std::uint32_t>(::dp_bench::PluginTraits<Interface>::kKind),    \
         ::dp_bench::PluginTraits<Interface>::kBuildId, name, version},             \
        {__VA_ARGS__}};                                                             \
    return &entry.header;                                                           \
  }
