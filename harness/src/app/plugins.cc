// dp_bench plugins: lists the plugins on the search path, makes new ones and checks them. The
// templates of new ones are projects that build as they are; plugins/templates has them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <filesystem>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "app/program_files.h"
#include "app/verbs.h"
#include "core/atomic_file.h"
#include "core/console.h"
#include "core/errors.h"
#include "plugin/catalogue.h"
#include "rollout/certify_determinism.h"
#include "run/manifest.h"
#include "task/task.h"

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
  task::ExperimentOptions experiment;
  fs::path params;
  std::string obs;
  bool is_isolated = false;
};

constexpr std::size_t kMaxTemplateBytes = 1 << 20;

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

// The class in the project has the plugin's name, which must not be that of a type or a function of
// the template, such as Env or Error.
void RequireOwnClass(const fs::path& project_template, const std::string& name) {
  const std::regex word("\\b" + CamelCase(name) + "\\b");
  for (const auto& entry : fs::directory_iterator(project_template)) {
    if (entry.path().extension() != ".cc") continue;
    if (!std::regex_search(core::ReadTextFile(entry.path(), kMaxTemplateBytes), word)) continue;
    throw UsageError(
        "the name is '{}', so the plugin's class would be {}, and the project needs that word for "
        "something else; expected another name, such as my_{}",
        name, CamelCase(name), name);
  }
}

// The package of this installation; none in a build.
fs::path PackageFolder() { return (ProgramFolder() / "../lib/cmake/dp_bench").lexically_normal(); }

// Writes the project of the template for this kind ("env", "policy" or "dataset") to `folder`, with
// `name` in place of the template's. Returns the commands that build and try it.
std::string MakePluginProject(const std::string& kind, const std::string& name,
                              const fs::path& folder) {
  if (!std::regex_match(name, std::regex("[a-z][a-z0-9_]{0,63}"))) {
    throw UsageError(
        "the name is '{}'; expected small letters, digits and _, beginning with a letter, at most "
        "64 characters",
        name);
  }
  if (fs::exists(folder) && !fs::is_empty(folder)) {
    throw UsageError("'{}' exists and is not empty; give another --output", folder.string());
  }
  const fs::path from = TemplateFolder(kind);
  const std::string template_name = "my_" + kind;
  if (name != template_name) RequireOwnClass(from, name);
  const auto adapt = [&](const std::string& text) {
    const std::string renamed = std::regex_replace(text, std::regex(template_name), name);
    return std::regex_replace(renamed, std::regex(CamelCase(template_name)), CamelCase(name));
  };
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    if (!entry.is_regular_file()) continue;
    const fs::path to = folder / adapt(fs::relative(entry.path(), from).string());
    fs::create_directories(to.parent_path());
    core::WriteFileAtomically(to, adapt(core::ReadTextFile(entry.path(), kMaxTemplateBytes)));
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

// The program with the conformance suite for a kind of plugin.
fs::path ConformanceProgram(const std::string& kind) {
  const std::string name = kind + "_conformance";
  return FirstOf("conformance suite for plugins of the kind " + kind,
                 {ProgramFolder() / "../lib/dp_bench/conformance" / name, ProgramFolder() / name});
}

int List(const PluginsOptions& options) {
  plugin::PluginCatalogue catalogue = OpenCatalogue(options.plugin_dirs);
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
  task::ExperimentOptions asked = options.experiment;
  asked.overrides = options.targets;
  asked.plugin_dirs = options.plugin_dirs;
  asked.isolate = true;
  const task::Task task(asked);
  const run::DeterminismCertificate certificate =
      rollout::CertifyDeterminism([&] { return task.CreateEnv(); });
  core::PrintResult("{}\ntrace hash {}\n", run::Describe(certificate), certificate.trace_hash);
  return certificate.difference ? 1 : 0;
}

// Becomes the program of the suite, whose exit status is 1 if a check fails.
int CheckLibrary(const PluginsOptions& options) {
  const fs::path file = options.targets.empty() ? fs::path() : fs::path(options.targets.front());
  if (options.targets.size() != 1 || !fs::exists(file)) {
    throw UsageError("expected the library of a plugin, or --env; found '{}', which is no file",
                     fmt::join(options.targets, " "));
  }
  plugin::PluginCatalogue catalogue({});
  const plugin::PluginInfo info = catalogue.LoadFile(file);
  const std::string kind = plugin::KindName(info.kind);
  const fs::path program = ConformanceProgram(kind);
  std::vector<std::string> arguments = {program.string(), "--plugin=" + file.string()};
  if (!options.params.empty()) arguments.push_back("--params=" + options.params.string());
  if (!options.obs.empty()) arguments.push_back("--obs=" + options.obs);
  if (options.is_isolated) arguments.emplace_back("--isolate");
  core::PrintStatus("{} {} {}\n", kind, info.name, info.version);
  Become(program, std::move(arguments));
}

void AddNew(CLI::App* app, const std::shared_ptr<PluginsOptions>& options) {
  app->footer(
      "Examples:\n"
      "  dp_bench plugins new env my_arm\n"
      "  dp_bench plugins new mujoco_env my_robot\n"
      "  dp_bench plugins new policy my_method --output ~/projects/my_method");
  AddChoice(app, "kind", &options->kind, {"env", "mujoco_env", "policy", "dataset"},
            "env, mujoco_env, policy or dataset")
      ->required();
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
  AddConfigDirOption(app, &options->experiment.config_dirs);
  app->add_option("--params", options->params, "JSON file with the params to check it with")
      ->check(CLI::ExistingFile);
  AddChoice(app, "--obs", &options->obs, {"low_dim", "rgb", "rgbd"},
            "What a policy observes (default: low_dim)");
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
