#include "app/experiment.h"

#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <sstream>
#include <utility>

#include "dp_bench/error.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;

Config Load(const ExperimentOptions& options) {
  if (options.config.empty() && (options.policy.empty() || options.env.empty())) {
    throw Error(ErrorCode::kUsage,
                "nothing to run: give --policy and --env, or --config (see --help)");
  }
  std::vector<fs::path> config_dirs = options.config_dirs;
  for (fs::path& dir : DefaultConfigDirs()) config_dirs.push_back(std::move(dir));
  return LoadConfig({.policy = options.policy,
                     .env = options.env,
                     .dataset = options.dataset,
                     .config = options.config,
                     .overrides = options.overrides,
                     .config_dirs = std::move(config_dirs)});
}

}  // namespace

std::vector<fs::path> DefaultConfigDirs() {
  std::vector<fs::path> dirs;
  if (const char* from_environment = std::getenv("DP_BENCH_CONFIG_PATH")) {
    std::stringstream entries(from_environment);
    for (std::string entry; std::getline(entries, entry, ':');) dirs.emplace_back(entry);
  }
  dirs.emplace_back("configs");
  const fs::path program = fs::canonical("/proc/self/exe").parent_path();
  dirs.push_back(program / ".." / "configs");
  dirs.push_back(program / ".." / ".." / ".." / "configs");  // build/<preset>/bin
  return dirs;
}

Experiment::Experiment(const ExperimentOptions& options)
    : config_(Load(options)),
      catalogue_(PluginCatalogue::DefaultSearchPath(options.plugin_dirs)),
      spec_{.shape_meta = ShapeMeta::FromConfig(config_.Sub("shape_meta")),
            .horizons = Horizons::FromConfig(config_)} {
  const auto env = config_.Sub("env").Get<std::string>("plugin");
  name_ = fmt::format("{}_{}", config_.Sub("policy").Get<std::string>("plugin"),
                      config_.Get<std::string>("name", env));
}

std::unique_ptr<Env> Experiment::CreateEnv() const {
  const Config section = config_.Sub("env");
  return catalogue_.Create<Env>(section.Get<std::string>("plugin"), section.Sub("params"));
}

std::unique_ptr<Dataset> Experiment::CreateDataset() const {
  const Config section = config_.Sub("dataset");
  return catalogue_.Create<Dataset>(section.Get<std::string>("plugin"), section.Sub("params"));
}

std::unique_ptr<Policy> Experiment::CreatePolicy() const {
  const Config section = config_.Sub("policy");
  return catalogue_.Create<Policy>(section.Get<std::string>("plugin"), section.Sub("params"),
                                   spec_);
}

fs::path NewRunFolder(const Experiment& experiment) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char date[32];
  char time[32];
  std::strftime(date, sizeof(date), "%Y-%m-%d", &local);
  std::strftime(time, sizeof(time), "%H-%M-%S", &local);

  const fs::path stem = fs::path("runs") / date / fmt::format("{}_{}", time, experiment.name());
  fs::path folder = stem;
  for (int i = 2; fs::exists(folder); ++i) folder = fmt::format("{}_{}", stem.string(), i);
  return folder;
}

}  // namespace dp_bench
