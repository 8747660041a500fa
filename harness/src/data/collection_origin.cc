#include "data/collection_origin.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <span>
#include <vector>

#include "core/sha256.h"
#include "dp_bench/error.h"

namespace dp_bench::data {
namespace {

using nlohmann::json;

constexpr std::size_t kHashDigits = 8;

std::vector<std::string> EnvsWithExpert(plugin::PluginCatalogue& catalogue) {
  std::vector<std::string> names;
  for (const plugin::PluginInfo& plugin : catalogue.List()) {
    if (plugin.kind != PluginKind::kEnv || !plugin.refused.empty()) continue;
    try {
      const EnvSpec spec = catalogue.DescribeEnv(plugin.name, Config::FromJson("{}"));
      if (spec.abilities.has_expert) names.push_back(plugin.name);
    } catch (const Error&) {
      // skip envs that need params or whose files are missing
    }
  }
  return names;
}

}  // namespace

json CollectionOrigin(const std::string& env_section, const std::string& env_version,
                      const CollectConfig& config) {
  return {{"env", json::parse(env_section)},
          {"env_version", env_version},
          {"start_seed", config.start_seed},
          {"action_noise", config.action_noise},
          {"action_noise_std",
           config.action_noise_std ? json(*config.action_noise_std) : json(nullptr)},
          {"keep_failures", config.keep_failures}};
}

std::filesystem::path CollectionPath(const std::string& name, const json& origin, int n_episodes) {
  const std::string text = fmt::format("{} {}", origin.dump(), n_episodes);
  const std::string hash = core::Sha256Hex(std::as_bytes(std::span(text)));
  return std::filesystem::path("data") /
         fmt::format("{}-{}.zarr", name, hash.substr(0, kHashDigits));
}

void RequireExpert(const EnvSpec& env, const std::string& name,
                   plugin::PluginCatalogue& catalogue) {
  if (env.abilities.has_expert) return;
  const std::vector<std::string> others = EnvsWithExpert(catalogue);
  throw Error(
      ErrorCode::kUsage,
      fmt::format("cannot collect: the env '{}' has no expert (envs with one: {}). Give "
                  "your own demonstrations with --dataset PATH.",
                  name, others.empty() ? "none" : fmt::format("{}", fmt::join(others, ", "))));
}

}  // namespace dp_bench::data
