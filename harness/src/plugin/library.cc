// Boost.DLL opens the file with immediate binding, so that a missing symbol is detected here, and
// with local symbols, so that plugins cannot see each other.
#define BOOST_DLL_USE_STD_FS
#include "plugin/library.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/dll/shared_library.hpp>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "plugin/guard.h"
#include "plugin/load_probe.h"

namespace dp_bench::plugin {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHowToRebuild =
    ". Rebuild it with the SDK and the compiler of this dp_bench, and without options that change "
    "the C++ library, such as -D_GLIBCXX_DEBUG.";

constexpr const char* kEntrySymbol = "dp_bench_plugin";
constexpr std::size_t kMaxLibraryBytes = std::size_t{1} << 30;

[[noreturn]] void RefuseFile(const fs::path& file, const std::string& reason) {
  throw PluginError("{} is not a dp_bench plugin: {}", file.string(), reason);
}

// Loading runs static constructors, so a file that is no plugin must not be loaded, not even in a
// child process. Every plugin has the name of its entry in its symbol table, also a stripped one.
void RequireEntryName(const fs::path& file) {
  std::string bytes;
  try {
    bytes = core::ReadTextFile(file, kMaxLibraryBytes);
  } catch (const Error& fault) {
    RefuseFile(file, fault.what());
  }
  if (!bytes.starts_with("\177ELF")) RefuseFile(file, "it is not a shared library");
  if (bytes.find(std::string(kEntrySymbol) + '\0') == std::string::npos) {
    RefuseFile(file, fmt::format("it does not export {}", kEntrySymbol));
  }
}

// Loads the library, or finds it among the loaded ones. Handles are never destroyed: exception
// objects, deleters and registrations of a plugin must stay valid until the process ends.
const boost::dll::shared_library& KeepLoaded(const PluginPlace& place) {
  static std::mutex mutex;
  static auto* const libraries = new std::vector<std::unique_ptr<boost::dll::shared_library>>();
  const std::lock_guard lock(mutex);
  auto library = std::make_unique<boost::dll::shared_library>();
  namespace mode = boost::dll::load_mode;
  std::string reason;
  GuardCall(place, "loading", [&] {
    try {
      library->load(place.file, mode::rtld_now | mode::rtld_local);
    } catch (const std::system_error& fault) {
      reason = fault.what();
    }
  });
  if (!library->is_loaded()) {
    const bool lacks_sdk = reason.find("undefined symbol") != std::string::npos;
    throw PluginError("{} cannot be loaded: {}{}", place.file.string(), reason,
                      lacks_sdk ? kHowToRebuild : "");
  }
  return *libraries->emplace_back(std::move(library));
}

const char* BuildIdFor(PluginKind kind) {
  return kind == PluginKind::kPolicy ? kTorchBuildId : kCoreBuildId;
}

bool IsKnown(PluginKind kind) {
  return kind == PluginKind::kEnv || kind == PluginKind::kDataset || kind == PluginKind::kPolicy ||
         kind == PluginKind::kDatasetWriter;
}

bool IsSnakeCase(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::string_view TextOf(const char* text) { return text ? text : ""; }

void CheckCompatible(const PluginHeader* found, std::optional<PluginKind> wanted,
                     const fs::path& file) {
  // before the magic matches, no other field may be read
  if (!found || found->magic != kPluginMagic) {
    RefuseFile(file,
               fmt::format("its header does not begin with the magic number {:#x}", kPluginMagic));
  }

  // collect every mismatch, so that one rebuild is enough
  std::vector<std::string> problems;
  const auto kind = static_cast<PluginKind>(found->kind);
  const std::uint32_t abi = kAbiVersion;
  if (found->abi_version != abi) {
    problems.push_back(fmt::format("its SDK ABI is {}, the host has {}", found->abi_version, abi));
  }
  if (!IsKnown(kind) || (wanted && kind != *wanted)) {
    problems.push_back(fmt::format("its kind is {}, expected {}", KindName(kind),
                                   wanted ? KindName(*wanted) : "env, dataset, writer or policy"));
  }
  const char* const build_id = BuildIdFor(wanted.value_or(kind));
  if (TextOf(found->build_id) != build_id) {
    problems.push_back(
        fmt::format("it was built as '{}', the host is '{}'", TextOf(found->build_id), build_id));
  }
  if (!IsSnakeCase(TextOf(found->name))) {
    problems.push_back(fmt::format("its name '{}' is not in snake_case", TextOf(found->name)));
  }
  if (!problems.empty()) {
    throw PluginError("{}: {}{}", file.string(), fmt::join(problems, "; "), kHowToRebuild);
  }
}

}  // namespace

const PluginHeader* OpenPlugin(const fs::path& file, std::optional<PluginKind> wanted,
                               FirstTry first_try) {
  if (first_try == FirstTry::kInChild) RequireEntryName(file);
  const PluginPlace place = {wanted.value_or(PluginKind::kEnv), file.stem().string(),
                             fs::canonical(file)};
  if (first_try == FirstTry::kInChild) RequireLoadable(place.file, kEntrySymbol);
  const boost::dll::shared_library& library = KeepLoaded(place);
  if (!library.has(kEntrySymbol)) {
    RefuseFile(file, fmt::format("it does not export {}", kEntrySymbol));
  }
  const auto& entry = library.get<const PluginHeader*()>(kEntrySymbol);
  const PluginHeader* const header = GuardCall(place, kEntrySymbol, [&] { return entry(); });
  CheckCompatible(header, wanted, file);
  return header;
}

}  // namespace dp_bench::plugin
