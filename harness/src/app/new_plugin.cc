// See new_plugin.h. The templates are projects that build as they are; plugins/templates has them.
#include "app/new_plugin.h"

#include <fmt/format.h>

#include <cctype>
#include <fstream>
#include <iterator>
#include <regex>
#include <vector>

#include "core/atomic_file.h"
#include "dp_bench/error.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxTemplateBytes = 1 << 20;

fs::path ProgramFolder() { return fs::canonical("/proc/self/exe").parent_path(); }

// The first that exists; otherwise an error that names all of them.
fs::path FirstOf(const std::string& what, const std::vector<fs::path>& places) {
  std::string tried;
  for (const fs::path& place : places) {
    if (fs::exists(place)) return fs::canonical(place);
    tried += "\n  " + place.lexically_normal().string();
  }
  throw Error(ErrorCode::kIo, fmt::format("found no {}; looked for:{}", what, tried));
}

fs::path TemplateFolder(const std::string& kind) {
  return FirstOf(fmt::format("template for plugins of the kind {}", kind),
                 {ProgramFolder() / "../share/dp_bench/templates" / kind,
                  ProgramFolder() / "../../../plugins/templates" / kind});  // build/<preset>/bin
}

// my_arm -> MyArm
std::string CamelCase(const std::string& name) {
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '_') continue;
    const bool begins_word = i == 0 || name[i - 1] == '_';
    text += begins_word ? static_cast<char>(std::toupper(static_cast<unsigned char>(name[i])))
                        : name[i];
  }
  return text;
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// The package of this installation; none in a build.
fs::path PackageFolder() { return (ProgramFolder() / "../lib/cmake/dp_bench").lexically_normal(); }

}  // namespace

std::string MakePluginProject(const std::string& kind, const std::string& name,
                              const fs::path& folder) {
  if (!std::regex_match(name, std::regex("[a-z][a-z0-9_]{0,63}"))) {
    throw Error(ErrorCode::kUsage,
                fmt::format("the name is '{}'; expected small letters, digits and _, beginning "
                            "with a letter, at most 64 characters",
                            name));
  }
  if (fs::exists(folder) && !fs::is_empty(folder)) {
    throw Error(
        ErrorCode::kUsage,
        fmt::format("'{}' exists and is not empty; give another --output", folder.string()));
  }
  const fs::path from = TemplateFolder(kind);
  const std::string template_name = "my_" + kind;
  const auto adapt = [&](const std::string& text) {
    const std::string renamed = Replaced(text, template_name, name);
    return Replaced(renamed, CamelCase(template_name), CamelCase(name));
  };
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    if (!entry.is_regular_file()) continue;
    const fs::path to = folder / adapt(fs::relative(entry.path(), from).string());
    fs::create_directories(to.parent_path());
    core::WriteFileAtomically(
        to, std::string_view(adapt(core::ReadTextFile(entry.path(), kMaxTemplateBytes))));
  }
  const std::string package =
      fs::exists(PackageFolder()) ? PackageFolder().string() : "PREFIX/lib/cmake/dp_bench";
  std::string next = fmt::format(
      "{0}: a project that builds as it is. Next:\n"
      "  cd {0}\n"
      "  cmake -B build -Ddp_bench_DIR=\"{1}\" && cmake --build build\n"
      "  ctest --test-dir build --output-on-failure\n",
      folder.string(), package);
  if (!fs::exists(PackageFolder())) {
    next += "dp_bench is not installed: cmake --install build/release --prefix PREFIX\n";
  }
  return next;
}

fs::path ConformanceProgram(const std::string& kind) {
  const std::string name = kind + "_conformance";
  return FirstOf("conformance suite for plugins of the kind " + kind,
                 {ProgramFolder() / "../lib/dp_bench/conformance" / name, ProgramFolder() / name});
}

}  // namespace dp_bench::app
