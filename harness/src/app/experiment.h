// One experiment as the command line names it: its config, the plugins it uses and the parts made
// from them. Every verb that runs something starts here.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "config/loader.h"
#include "dp_bench/config.h"
#include "dp_bench/dataset.h"
#include "dp_bench/env.h"
#include "dp_bench/policy.h"
#include "plugin/catalogue.h"
#include "plugin/guarded_policy.h"

namespace dp_bench {

/// What the command line says about an experiment.
struct ExperimentOptions {
  std::string policy;
  std::string env;
  std::string dataset;
  std::filesystem::path config;
  std::vector<std::string> overrides;  // "a.b.c=value"
  std::vector<std::filesystem::path> config_dirs;
  std::vector<std::filesystem::path> plugin_dirs;
};

class Experiment {
 public:
  explicit Experiment(const ExperimentOptions& options);

  const Config& config() const { return config_; }
  PluginCatalogue& catalogue() const { return catalogue_; }
  const PolicySpec& spec() const { return spec_; }

  /// "unet_hybrid_pusht": what a run folder is named after.
  const std::string& name() const { return name_; }

  std::unique_ptr<Env> CreateEnv() const;
  std::unique_ptr<Dataset> CreateDataset() const;
  std::unique_ptr<Policy> CreatePolicy() const;

 private:
  Config config_;
  mutable PluginCatalogue catalogue_;  // loads on demand, behind its own lock
  PolicySpec spec_;
  std::string name_;
};

/// Where configs/ is looked for when --config-dir does not say: DP_BENCH_CONFIG_PATH, ./configs,
/// and configs/ beside or above the program.
std::vector<std::filesystem::path> DefaultConfigDirs();

/// runs/<date>/<time>_<policy>_<env>, which does not exist yet.
std::filesystem::path NewRunFolder(const Experiment& experiment);

}  // namespace dp_bench
