// The task that a command line names: its config, env and dataset. Verbs that need no policy start
// here, the others at the experiment on top of it.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/collector.h"
#include "dp_bench/config.h"
#include "dp_bench/dataset.h"
#include "dp_bench/env.h"
#include "plugin/catalogue.h"
#include "plugin/isolated_env.h"
#include "rollout/perturbed_env.h"

namespace dp_bench::config {
class ConfigDocument;
}

namespace dp_bench::experiment {

/// What the command line says about an experiment.
struct ExperimentOptions {
  std::string policy;
  std::string env;
  std::string obs;
  std::string task;
  std::string dataset;
  std::string device;
  std::filesystem::path config;
  std::optional<bool> isolate;         // env_runner.isolate
  std::vector<std::string> overrides;  // "a.b.c=value"
  std::vector<std::filesystem::path> config_dirs;
  std::vector<std::filesystem::path> plugin_dirs;
};

/// The top-level key "name", by default the name of the env plugin.
std::string ReadTaskName(const Config& config, const std::string& env_plugin);

class Task {
 public:
  /// Throws Error{kUsage} when the options name neither an env nor a config.
  explicit Task(const ExperimentOptions& options);

  const Config& config() const { return config_; }

  /// Behind the config: where each key comes from, and whether it was read.
  const config::ConfigDocument& document() const { return *document_; }

  plugin::PluginCatalogue& catalogue() const { return catalogue_; }

  /// "pusht_image", "kuavo_dualarm_pick_place": the config's name and env.params.task.
  const std::string& name() const { return name_; }

  /// Of the config; obs or action that it leaves out are the env's, which then enter the config as
  /// if written there.
  const ShapeMeta& shape_meta() const { return shape_meta_; }

  /// Throws Error{kShape} when the command line changed shape_meta to what the env does not offer:
  /// elsewhere it would show late, and as something else, in the data or in weights.
  void RequireShapesOfEnv() const;

  std::string env_name() const;
  std::string EnvVersion() const;
  /// What the env offers, without creating it. Enters the defaults of its params in the config.
  EnvSpec DescribeEnv() const;
  /// In a separate process with env_runner.isolate; with perturbed actions with env.perturb.
  std::unique_ptr<Env> CreateEnv() const;

  /// Whether the dataset is collected with the env's expert: the config has a section `collect`,
  /// and its section `dataset` names no plugin.
  bool is_collected() const;

  /// The section `collect`, and as output where `run` keeps its data sets.
  data::CollectRequest MakeCollectRequest() const;

  /// Throws Error{kData} when there is none; see ProvideDataset in app/collection.h.
  std::unique_ptr<Dataset> CreateDataset() const;

  /// The plugin that reads the dataset, and its file or folder where it has one.
  std::string dataset_plugin() const;
  std::optional<std::filesystem::path> dataset_path() const;

 private:
  ShapeMeta ReadShapeMeta() const;
  plugin::PluginPlace EnvPlugin() const;

  std::shared_ptr<config::ConfigDocument> document_;
  Config config_;
  mutable plugin::PluginCatalogue catalogue_;  // loads on demand, behind its own lock
  std::string name_;
  plugin::IsolationConfig isolation_;
  std::optional<rollout::ActionPerturbation> perturbation_;
  ShapeMeta shape_meta_;
};

/// Where configs/ is looked for when --config-dir does not say: DP_BENCH_CONFIG_PATH, ./configs,
/// and configs/ beside or above the program.
std::vector<std::filesystem::path> DefaultConfigDirs();

}  // namespace dp_bench::experiment
