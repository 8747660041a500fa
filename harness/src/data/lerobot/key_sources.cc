#include "data/lerobot/key_sources.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

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

}  // namespace dp_bench::lerobot
