// dp_bench keys: prints every key of a config, from the code that reads it.
#include <filesystem>
#include <memory>
#include <vector>

#include "app/verbs.h"
#include "core/console.h"
#include "report/key_table.h"
#include "task/config_reference.h"

namespace dp_bench::app {
namespace {

struct KeysOptions {
  task::KeyRequest request;
  std::vector<std::filesystem::path> plugin_dirs;
  bool is_markdown = false;
};

// A key without a meaning is an error of its plugin.
int ReportMissingMeanings(const std::vector<config::KeySection>& sections) {
  int exit_code = 0;
  for (const config::KeySection& section : sections) {
    for (const config::KeyRead& key : section.keys) {
      if (!key.meaning.empty()) continue;
      core::PrintStatus("{}: {} has no meaning; write one where it is read\n", section.name,
                        key.pointer);
      exit_code = 1;
    }
  }
  return exit_code;
}

int PrintKeys(const KeysOptions& options) {
  plugin::PluginCatalogue catalogue = OpenCatalogue(options.plugin_dirs);
  const auto sections = task::ConfigReference(options.request, catalogue);
  if (options.is_markdown) {
    core::WriteResult(report::KeyPage(sections));
  } else {
    for (const config::KeySection& section : sections) {
      core::PrintResult("{}\n", report::KeyTable(section));
    }
  }
  return ReportMissingMeanings(sections);
}

}  // namespace

Verb AddKeys(CLI::App* app) {
  const auto options = std::make_shared<KeysOptions>();
  app->footer(
      "Examples:\n"
      "  dp_bench keys training\n"
      "  dp_bench keys policy --policy unet_hybrid");
  task::KeyRequest& request = options->request;
  app->add_option("section", request.section, "Only this section of a config");
  app->add_option("--policy", request.policy, "Only this policy plugin");
  app->add_option("--env", request.env,
                  "Only this env plugin: env.plugin of a config, such as gymnasium");
  app->add_option("--dataset", request.dataset, "Only this dataset plugin");
  app->add_flag("--markdown", options->is_markdown, "Print the page docs/config_reference.md");
  AddPluginDirOption(app, &options->plugin_dirs);
  return [options] { return PrintKeys(*options); };
}

}  // namespace dp_bench::app
