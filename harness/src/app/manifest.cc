#include "app/manifest.h"

#include <sys/utsname.h>
#include <torch/version.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <thread>

#include "core/atomic_file.h"
#include "core/sha256.h"
#include "dp_bench/build_id.h"

namespace dp_bench {
namespace {

std::string CpuModel() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

}  // namespace

void WriteManifest(const Experiment& experiment, const std::filesystem::path& path) {
  nlohmann::json plugins = nlohmann::json::array();
  for (const char* section : {"policy", "env", "dataset"}) {
    const std::string name = std::string_view(section) == "dataset"
                                 ? experiment.dataset_plugin()
                                 : experiment.config().Sub(section).Get<std::string>("plugin");
    for (const PluginInfo& info : experiment.catalogue().List()) {
      if (info.name != name || KindName(info.kind) != section) continue;
      const std::vector<std::byte> file = ReadFile(info.file, std::size_t{1} << 30);
      plugins.push_back({{"kind", section},
                         {"name", name},
                         {"version", info.version},
                         {"file", info.file.filename().string()},
                         {"sha256", Sha256Hex(file)}});
    }
  }
  utsname system{};
  uname(&system);
  const nlohmann::json manifest = {
      {"dp_bench", kVersion},
      {"core_build_id", kCoreBuildId},
      {"torch_build_id", kTorchBuildId},
      {"plugins", plugins},
      {"machine",
       {{"cpu", CpuModel()},
        {"threads", std::thread::hardware_concurrency()},
        {"system", std::string(system.sysname) + " " + system.release}}},
  };
  const std::string text = manifest.dump(2) + "\n";
  WriteFileAtomically(path, std::string_view(text));
}

}  // namespace dp_bench
