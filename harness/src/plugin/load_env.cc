#include "dp_bench/load_env.h"

#include <string>

#include "plugin/catalogue.h"

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
