// dp_bench plugins: lists the plugins on the search path, makes new ones and checks them.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/new_plugin.h"
#include "app/verbs.h"
#include "core/console.h"
#include "dp_bench/error.h"
#include "experiment/task.h"
#include "plugin/catalogue.h"
#include "rollout/certify_determinism.h"
#include "run/determinism.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

struct PluginsOptions {
  std::vector<fs::path> plugin_dirs;
  // new
  std::string kind;
  std::string name;
  fs::path output;
  // check
  std::vector<std::string> targets;  // the library; with --env, config values
  experiment::ExperimentOptions experiment;
  fs::path params;
  std::string obs;
  bool is_isolated = false;
};

int List(const PluginsOptions& options) {
  plugin::PluginCatalogue catalogue(
      plugin::PluginCatalogue::DefaultSearchPath(options.plugin_dirs));
  int exit_code = 0;
  for (const plugin::PluginInfo& plugin : catalogue.List()) {
    core::PrintResult("{:<8} {:<16} {:<8} {}\n", plugin::KindName(plugin.kind), plugin.name,
                      plugin.version, plugin.file.string());
    if (plugin.refused.empty()) continue;
    core::PrintResult("  refused: {}\n", plugin.refused);
    exit_code = ExitCodeFor(ErrorCode::kPlugin);
  }
  return exit_code;
}

int MakeNew(const PluginsOptions& options) {
  const fs::path folder = options.output.empty() ? fs::path(options.name) : options.output;
  core::PrintResult("{}", MakePluginProject(options.kind, options.name, folder));
  return 0;
}

// Each env has its own process, so that a fresh process is part of the question.
int Certify(const PluginsOptions& options) {
  experiment::ExperimentOptions asked = options.experiment;
  asked.overrides = options.targets;
  asked.plugin_dirs = options.plugin_dirs;
  asked.isolate = true;
  const experiment::Task task(asked);
  const run::DeterminismCertificate certificate =
      rollout::CertifyDeterminism([&] { return task.CreateEnv(); });
  core::PrintResult("{}\ntrace hash {}\n", run::Describe(certificate), certificate.trace_hash);
  return certificate.difference ? 1 : 0;
}

// Becomes the program of the suite, whose exit status is 1 if a check fails.
int CheckLibrary(const PluginsOptions& options) {
  const fs::path file = options.targets.empty() ? fs::path() : fs::path(options.targets.front());
  if (options.targets.size() != 1 || !fs::exists(file)) {
    throw Error(ErrorCode::kUsage,
                fmt::format("expected the library of a plugin, or --env; found '{}', which is no "
                            "file",
                            fmt::join(options.targets, " ")));
  }
  plugin::PluginCatalogue catalogue({});
  const plugin::PluginInfo info = catalogue.LoadFile(file);
  const std::string kind = plugin::KindName(info.kind);
  const fs::path program = ConformanceProgram(kind);
  std::vector<std::string> arguments = {program.string(), "--plugin=" + file.string()};
  if (!options.params.empty()) arguments.push_back("--params=" + options.params.string());
  if (!options.obs.empty()) arguments.push_back("--obs=" + options.obs);
  if (options.is_isolated) arguments.emplace_back("--isolate");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  core::PrintStatus("{} {} {}\n", kind, info.name, info.version);
  execv(program.c_str(), argv.data());
  throw Error(ErrorCode::kIo,
              fmt::format("cannot start {}: {}", program.string(), strerror(errno)));
}

void AddNew(CLI::App* app, const std::shared_ptr<PluginsOptions>& options) {
  app->footer(
      "Examples:\n"
      "  dp_bench plugins new env my_arm\n"
      "  dp_bench plugins new mujoco_env my_robot\n"
      "  dp_bench plugins new policy my_method --output ~/projects/my_method");
  app->add_option("kind", options->kind, "env, mujoco_env, policy or dataset")
      ->required()
      ->check(CLI::IsMember({"env", "mujoco_env", "policy", "dataset"}));
  app->add_option("name", options->name, "Name of the plugin, in snake_case")->required();
  app->add_option("--output", options->output, "Folder of the project (default: ./<name>)");
}

void AddCheck(CLI::App* app, const std::shared_ptr<PluginsOptions>& options) {
  app->footer(
      "Examples:\n"
      "  dp_bench plugins check build/plugins/libdpb_env_my_arm.so\n"
      "  dp_bench plugins check build/plugins/libdpb_policy_my_method.so --obs rgb\n"
      "  dp_bench plugins check --env gymnasium env.params.id=gym_pusht/PushT-v0");
  app->add_option("file", options->targets, "The plugin's library; with --env, config values");
  app->add_option("--env", options->experiment.env,
                  "Check that the outcomes of this task's env are a function of the seed");
  app->add_option("--config-dir", options->experiment.config_dirs, "With --env: folder with task/")
      ->allow_extra_args(false);
  app->add_option("--params", options->params, "JSON file with the params to check it with")
      ->check(CLI::ExistingFile);
  app->add_option("--obs", options->obs, "What a policy observes (default: low_dim)")
      ->check(CLI::IsMember({"low_dim", "rgb", "rgbd"}));
  app->add_flag("--isolate", options->is_isolated, "Run an env in a separate process");
}

}  // namespace

Verb AddPlugins(CLI::App* app) {
  auto options = std::make_shared<PluginsOptions>();
  app->footer(
      "Examples:\n"
      "  dp_bench plugins\n"
      "  dp_bench plugins --plugin-dir build/my_plugins\n"
      "  dp_bench plugins new env my_arm\n"
      "  dp_bench plugins new mujoco_env my_robot\n"
      "  dp_bench plugins check build/plugins/libdpb_env_my_arm.so");
  AddPluginDirOption(app, &options->plugin_dirs);
  app->require_subcommand(0, 1);
  CLI::App* make_new = app->add_subcommand("new", "Write a project for a new plugin");
  AddNew(make_new, options);
  CLI::App* check = app->add_subcommand("check", "Run the conformance suite on a plugin");
  AddCheck(check, options);
  return [=] {
    if (make_new->parsed()) return MakeNew(*options);
    if (!check->parsed()) return List(*options);
    return options->experiment.env.empty() ? CheckLibrary(*options) : Certify(*options);
  };
}

}  // namespace dp_bench::app
