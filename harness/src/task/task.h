// The task of a command line: config, env and dataset. Verbs with a policy use Experiment, which
// adds it.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "config/document.h"
#include "config/loader.h"
#include "data/collector.h"
#include "data/mixture.h"
#include "data/task_key.h"
#include "dp_bench/config.h"
#include "dp_bench/dataset.h"
#include "dp_bench/env.h"
#include "plugin/catalogue.h"
#include "plugin/isolated_env.h"
#include "rollout/perturbed_env.h"
#include "task/sweep.h"

namespace dp_bench::task {

/// Command-line options of an experiment. `is_collected` and `defaults` are left out.
struct ExperimentOptions : config::ConfigRequest {
  std::string device;           // training.device
  std::optional<bool> isolate;  // env_runner.isolate
  std::vector<std::filesystem::path> plugin_dirs;
};

/// The section `multi_run` of the options' config; none if there is none.
std::optional<MultiRunConfig> MultiRunOf(const ExperimentOptions& options);

/// The top-level key "name", by default the name of the env plugin.
std::string ReadTaskName(const Config& config, const std::string& env_plugin);

class Task {
 public:
  /// The task of one training: the section `multi_run` is checked and removed, so that each of its
  /// runs has the config of a single one. Throws Error{kUsage} if the options name no env, dataset
  /// or config.
  explicit Task(const ExperimentOptions& options);

  const Config& config() const { return config_; }

  /// Records where each key of the config is from and whether it was read.
  const config::ConfigDocument& document() const { return *document_; }

  plugin::PluginCatalogue& catalogue() const { return catalogue_; }

  /// The config's name and env.params.task: "pusht_image", "kuavo_dualarm_pick_place". Without an
  /// env, the name of the dataset's folder.
  const std::string& name() const { return name_; }

  /// The config's shape_meta. If obs or action is missing, it is taken from the env, or without one
  /// from the dataset, and added to the config, as is the key of the section task_key.
  const ShapeMeta& shape_meta() const { return shape_meta_; }

  /// Throws Error{kShape} if the command line changed shape_meta to something that the env does not
  /// offer. Otherwise this would fail later with a misleading error about data or weights.
  void RequireShapesOfEnv() const;

  /// Whether the config names an env. A training needs only a dataset.
  bool has_env() const;

  /// Throws Error{kUsage} if there is no env, as all that follow.
  std::string env_name() const;
  plugin::PluginInfo EnvPlugin() const;
  /// env.params.task, or of an env with a single task the config's name.
  std::string env_task() const;
  /// Describes the env without creating it. Adds the defaults of its params to the config. With the
  /// section task_key it has that observation too; throws Error{kConfig} if the section does not
  /// know the env's task.
  EnvSpec DescribeEnv() const;
  /// What to do, in words: the env's instruction, or else the name.
  std::string TaskText() const;
  /// env_runner.isolate puts it into a separate process, env.perturb perturbs its actions. With the
  /// section task_key it observes its task.
  std::unique_ptr<Env> CreateEnv() const;

  /// Whether the env's expert collects the dataset, or datasets of a mixture: the config has a
  /// section `collect`, and its section `dataset` has no plugin and no mixture without tasks.
  bool is_collected() const;

  /// The tasks whose experts collect: those of dataset.mixture, or this one. Throws Error{kConfig}
  /// if it is not collected.
  std::vector<const Task*> CollectedTasks() const;

  /// Whether it has a dataset: one that is collected, or one that a plugin reads.
  bool has_dataset() const;

  /// The section `collect`, with the folder where `run` keeps its datasets as output. The env of
  /// the expert does not observe its task: all policies can use the same dataset.
  data::CollectRequest MakeCollectRequest() const;

  /// With dataset.mixture or the section task_key, a data::Mixture. Throws Error{kData} if it does
  /// not exist; see ProvideDataset in collection.h.
  std::unique_ptr<Dataset> CreateDataset() const;

  /// The plugins that read the dataset, each once, and its file or folder if it is a single one.
  std::vector<std::string> dataset_plugins() const;
  std::optional<std::filesystem::path> dataset_path() const;

  /// The file or folder of each dataset that is trained on.
  std::vector<std::filesystem::path> dataset_paths() const;

 private:
  ShapeMeta ReadShapeMeta() const;
  void RequireTaskKey(const ShapeMeta& meta) const;
  ShapeMeta ShapesOfDataset() const;
  EnvSpec DescribeBareEnv() const;  // bare: without the task key
  std::unique_ptr<Env> CreateBareEnv() const;
  std::optional<data::MixtureConfig> mixture() const;
  std::unique_ptr<Dataset> OpenDataset() const;  // a single one
  std::unique_ptr<Dataset> OpenSource(const data::MixtureConfig::Source& source) const;
  std::string ReaderOf(const data::MixtureConfig::Source& source) const;

  ExperimentOptions options_;
  mutable plugin::PluginCatalogue catalogue_;  // loads on demand; thread-safe
  std::shared_ptr<config::ConfigDocument> document_;
  Config config_;
  std::string name_;
  std::optional<EnvLimits> isolation_;  // if envs have processes of their own
  std::optional<rollout::ActionPerturbation> perturbation_;
  std::optional<data::TaskKey> task_key_;
  mutable std::mutex describing_;
  mutable std::optional<EnvSpec> described_;              // by DescribeBareEnv, once asked for
  mutable std::vector<std::unique_ptr<Task>> collected_;  // of CollectedTasks, once asked for
  mutable std::unique_ptr<Dataset> dataset_;  // opened for its shapes; the next one created
  ShapeMeta shape_meta_;
};

/// The config of one run as its files and overrides make it, without the defaults of plugins.
/// Throws Error{kUsage} and {kConfig} as Task does.
nlohmann::json ResolvedConfig(const ExperimentOptions& options);

/// Prints the references in the config with their values on standard error.
void PrintReferences(const Task& task);

/// Folders with configs if --config-dir is not given: DP_BENCH_CONFIG_PATH, ./configs, and those of
/// the build or installation that the program belongs to.
std::vector<std::filesystem::path> DefaultConfigDirs();

}  // namespace dp_bench::task
