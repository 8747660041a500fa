// dp_bench plugins: lists the plugins on the search path, and why others were refused.
#include <filesystem>
#include <memory>
#include <vector>

#include "app/verbs.h"
#include "core/console.h"
#include "plugin/catalogue.h"

namespace dp_bench::app {

Verb AddPlugins(CLI::App* app) {
  const auto plugin_dirs = std::make_shared<std::vector<std::filesystem::path>>();
  app->footer(
      "Examples:\n"
      "  dp_bench plugins\n"
      "  dp_bench plugins --plugin-dir build/my_plugins");
  app->add_option("--plugin-dir", *plugin_dirs, "Folder to search first; may be repeated")
      ->allow_extra_args(false);
  return [plugin_dirs] {
    plugin::PluginCatalogue catalogue(plugin::PluginCatalogue::DefaultSearchPath(*plugin_dirs));
    int exit_code = 0;
    for (const plugin::PluginInfo& plugin : catalogue.List()) {
      core::PrintResult("{:<8} {:<16} {:<8} {}\n", plugin::KindName(plugin.kind), plugin.name,
                        plugin.version, plugin.file.string());
      if (plugin.refused.empty()) continue;
      core::PrintResult("  refused: {}\n", plugin.refused);
      exit_code = ExitCodeFor(ErrorCode::kPlugin);
    }
    return exit_code;
  };
}

}  // namespace dp_bench::app
