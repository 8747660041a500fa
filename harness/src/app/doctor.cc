// dp_bench doctor: what this machine offers, what is missing, and what to do about it.
#include "inspect/doctor.h"

#include <fmt/format.h>

#include <memory>

#include "app/verbs.h"
#include "core/communicator.h"
#include "core/console.h"
#include "experiment/task.h"

namespace dp_bench::app {
namespace {

struct DoctorOptions {
  std::vector<std::filesystem::path> plugin_dirs;
  std::vector<std::filesystem::path> config_dirs;
  bool as_json = false;
};

int Examine(const DoctorOptions& options) {
  plugin::PluginCatalogue catalogue(
      plugin::PluginCatalogue::DefaultSearchPath(options.plugin_dirs));
  const inspect::MachineQuery query = {.catalogue = catalogue,
                                       .config_dirs = options.config_dirs.empty()
                                                          ? experiment::DefaultConfigDirs()
                                                          : options.config_dirs,
                                       .mpi = core::MpiVersion()};
  nlohmann::json all = nlohmann::json::array();
  int n_missing = 0;
  int n_broken = 0;
  inspect::CheckMachine(query, [&](const inspect::Checkup& checkup) {
    n_missing += checkup.health == inspect::Health::kMissing ? 1 : 0;
    n_broken += checkup.health == inspect::Health::kBroken ? 1 : 0;
    all.push_back(inspect::ToJson(checkup));
    if (!options.as_json) core::PrintResult("{}", inspect::ToText(checkup));
  });
  if (options.as_json) {
    core::PrintResult("{}\n", all.dump(2));
  } else {
    core::PrintResult("\n{} ok, {} missing, {} broken\n",
                      static_cast<int>(all.size()) - n_missing - n_broken, n_missing, n_broken);
  }
  return n_broken == 0 ? 0 : 1;
}

}  // namespace

Verb AddDoctor(CLI::App* app) {
  auto options = std::make_shared<DoctorOptions>();
  app->footer(
      "Ends with 1 if something is broken. What is missing is not needed by everybody.\n"
      "Examples:\n"
      "  dp_bench doctor\n"
      "  dp_bench doctor --plugin-dir build/my_plugins --json");
  AddPluginDirOption(app, &options->plugin_dirs);
  app->add_option("--config-dir", options->config_dirs, "Folder with configs; may be repeated")
      ->allow_extra_args(false);
  app->add_flag("--json", options->as_json, "Print JSON");
  return [options] { return Examine(*options); };
}

}  // namespace dp_bench::app
