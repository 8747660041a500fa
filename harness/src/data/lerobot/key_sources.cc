#include "data/lerobot/key_sources.h"

#include <fmt/format.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "core/console.h"
#include "core/json.h"

namespace dp_bench::lerobot {
namespace {

constexpr std::size_t kMaxKeySourcesBytes = std::size_t{16} << 20;

}  // namespace

std::optional<Config> ReadKeySources(const std::filesystem::path& root) {
  const std::filesystem::path file = root / kKeySourcesFile;
  if (!std::filesystem::exists(file)) return std::nullopt;
  const nlohmann::json noted = core::ReadJsonFile(file, kMaxKeySourcesBytes);
  const std::string name = file.string();
  return Config::FromJson(core::JsonView(noted, name).At("keys").json().dump(), name);
}

void WarnOfOmissions(const Metadata& metadata, const std::vector<std::string>& features) {
  for (const std::string& name : features) {
    const Feature& feature = metadata.features.at(name);
    const std::string where = fmt::format("{}: '{}'", metadata.root.string(), name);
    if (!feature.names_fault.empty()) {
      core::LogWarning(fmt::format("{}: its channels have no names, because \"names\" has {}",
                                   where, feature.names_fault));
    }
    if (feature.n_channels == 4) {
      core::LogWarning(fmt::format("{}: the transparency of its pictures is left out", where));
    }
  }
}

}  // namespace dp_bench::lerobot
