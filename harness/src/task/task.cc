#include "task/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string_view>
#include <utility>

#include "config/dataset_format.h"
#include "config/name.h"
#include "core/atomic_file.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/machine.h"
#include "data/replay_writer.h"
#include "rollout/shape_match.h"
#include "rollout/task_env.h"
#include "task/collection.h"
#include "task/config_reference.h"

namespace dp_bench::task {
namespace {

namespace fs = std::filesystem;

bool IsCollected(const std::string& dataset) {
  return !dataset.empty() && !data::ReadReplayAttributes(dataset).is_null();
}

bool NamesNothing(const ExperimentOptions& options) {
  return options.config.empty() && options.env.empty() && options.dataset.empty();
}

std::shared_ptr<config::ConfigDocument> Load(const ExperimentOptions& options,
                                             plugin::PluginCatalogue& catalogue) {
  if (NamesNothing(options)) {
    throw UsageError("nothing to do: give --env, or --config (see --help)");
  }
  config::ConfigRequest request = options;
  request.is_collected = IsCollected(options.dataset);
  request.defaults = &WithDefaults;
  request.readers = &catalogue;
  if (options.config.empty() && options.env.empty()) {  // nothing to roll out in
    request.overrides.insert(request.overrides.begin(), "training.rollout_every=0");
  }
  if (!options.device.empty()) {
    request.overrides.insert(request.overrides.begin(), "training.device=" + options.device);
  }
  if (options.isolate) {
    request.overrides.insert(request.overrides.begin(),
                             fmt::format("env_runner.isolate={}", *options.isolate));
  }
  // a plugin may bring its configs
  for (const fs::path& dir : plugin::PluginCatalogue::DefaultSearchPath(options.plugin_dirs)) {
    if (fs::is_directory(dir / "configs")) request.config_dirs.push_back(dir / "configs");
  }
  for (fs::path& dir : DefaultConfigDirs()) request.config_dirs.push_back(std::move(dir));
  return config::LoadConfigDocument(request);
}

constexpr const char* kMultiRun = "multi_run";

std::optional<MultiRunConfig> ReadMultiRun(const Config& config) {
  if (!config.Has(kMultiRun)) return std::nullopt;
  const Config section = config.Sub(kMultiRun);
  auto multi_run = MultiRunConfig::FromConfig(section);
  section.RejectUnread();
  return multi_run;
}

std::shared_ptr<config::ConfigDocument> LoadForOneRun(const ExperimentOptions& options,
                                                      plugin::PluginCatalogue& catalogue) {
  std::shared_ptr<config::ConfigDocument> document = Load(options, catalogue);
  ReadMultiRun(Config(document));
  document->Remove(kMultiRun);
  return document;
}

// "pusht_206" for "data/pusht 206.zarr".
std::string NameOfDataset(const Config& config) {
  const Config params = config.Sub("dataset").Sub("params");
  const std::string path = params.Has("path") ? params.Get<std::string>("path") : "";
  std::string name = core::NameOf(path).stem().string();
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  std::ranges::replace_if(
      name, [&](char c) { return kAllowed.find(c) == std::string_view::npos; }, '_');
  return name.empty() ? "dataset" : name.substr(0, 100);
}

// env.params.task, if it is there; empty, as in resolved configs, means none. Does not count as a
// read, because only the env knows whether the key exists.
std::optional<std::string> PeekEnvTask(const Config& env) {
  const auto params = nlohmann::json::parse(env.Sub("params").ToJson());
  const auto task = params.find("task");
  if (task == params.end() || !task->is_string() || *task == "") return std::nullopt;
  return task->get<std::string>();
}

std::string ReadName(const Config& config) {
  const Config env = config.Sub("env");
  if (!env.Has("plugin")) return ReadTaskName(config, NameOfDataset(config));
  const auto plugin = config::RequireName(env.Get<std::string>("plugin"), env.Where("plugin"));
  std::string name = ReadTaskName(config, plugin);
  const auto task = PeekEnvTask(env);
  if (!task) return name;
  return fmt::format("{}_{}", name, config::RequireName(*task, env.Sub("params").Where("task")));
}

// Reads the key with the env's values as defaults, which adds them to the config.
void EnterKey(const KeySpec& key, const Config& config) {
  config.Get("shape", key.shape);
  config.Get("type", std::string(Name(key.type)));
  config.Get("dtype", std::string(Name(key.dtype)));
}

/// Half of the memory that is free now, or what the plugin takes by default if that is more and
/// there is as much [MiB].
std::int64_t MemoryForImages() {
  constexpr std::int64_t kPluginDefault = 4096;
  const std::int64_t bytes = core::AvailableMemory();
  if (bytes == 0) return kPluginDefault;
  const std::int64_t free = std::max<std::int64_t>(1, bytes >> 20);
  return std::max(free / 2, std::min(kPluginDefault, free));
}

/// Only the keys that the policy uses: an env may record more cameras.
nlohmann::json CollectedParams(const fs::path& path, const ShapeMeta& shapes) {
  nlohmann::json keys = {{"action", {{"array", "data/action"}}}};
  for (const KeySpec& key : shapes.obs) {
    if (key.type == KeyType::kTask) continue;
    keys[key.name] = {{"array", "data/" + key.name}, {"type", Name(key.type)}};
  }
  return {{"path", path.string()}, {"keys", keys}, {"memory_limit_mb", MemoryForImages()}};
}

}  // namespace

std::optional<MultiRunConfig> MultiRunOf(const ExperimentOptions& options) {
  if (NamesNothing(options)) return std::nullopt;
  plugin::PluginCatalogue catalogue(
      plugin::PluginCatalogue::DefaultSearchPath(options.plugin_dirs));
  return ReadMultiRun(Config(Load(options, catalogue)));
}

nlohmann::json ResolvedConfig(const ExperimentOptions& options) {
  plugin::PluginCatalogue catalogue(
      plugin::PluginCatalogue::DefaultSearchPath(options.plugin_dirs));
  return LoadForOneRun(options, catalogue)->Copy("");
}

void PrintReferences(const Task& task) {
  for (const std::string& line : task.document().DescribeReferences()) {
    core::PrintStatus("{}\n", core::Printable(line));
  }
}

std::string ReadTaskName(const Config& config, const std::string& env_plugin) {
  return config::RequireName(
      config.Get("name", env_plugin, "names the task in run folders, datasets and reports"),
      config.Where("name"));
}

std::vector<fs::path> DefaultConfigDirs() {
  std::vector<fs::path> dirs;
  if (const char* from_environment = std::getenv("DP_BENCH_CONFIG_PATH")) {
    std::stringstream entries(from_environment);
    for (std::string entry; std::getline(entries, entry, ':');) dirs.emplace_back(entry);
  }
  dirs.emplace_back("configs");
  const fs::path program = fs::canonical("/proc/self/exe").parent_path();
  dirs.push_back(program / ".." / "configs");
  dirs.push_back(program / ".." / "share" / "dp_bench" / "configs");  // of an installation
  dirs.push_back(program / ".." / ".." / ".." / "configs");           // build/<preset>/bin
  return dirs;
}

Task::Task(const ExperimentOptions& options)
    : options_(options),
      catalogue_(plugin::PluginCatalogue::DefaultSearchPath(options.plugin_dirs)),
      document_(LoadForOneRun(options, catalogue_)),
      config_(document_),
      name_(ReadName(config_)),
      isolation_(plugin::ReadIsolation(config_.Sub("env_runner"))),
      perturbation_(rollout::ActionPerturbation::FromConfig(config_.Sub("env"))),
      task_key_(data::TaskKey::Find(config_)),
      shape_meta_(ReadShapeMeta()) {
  RequireTaskKey(shape_meta_);
}

ShapeMeta Task::ReadShapeMeta() const {
  const Config section = config_.Sub("shape_meta");
  const bool has_obs = section.Has("obs");
  const bool has_action = section.Has("action");
  if (has_obs && task_key_) {
    EnterKey(task_key_->spec(), section.Sub("obs").Sub(task_key_->spec().name));
  }
  if (has_obs && has_action) return ShapeMeta::FromConfig(section);
  // missing parts are the env's
  const ShapeMeta meta = has_env() ? DescribeEnv().shape_meta : ShapesOfDataset();
  if (!has_obs) {
    for (const KeySpec& key : meta.obs) EnterKey(key, section.Sub("obs").Sub(key.name));
  }
  if (!has_action) EnterKey(meta.action, section.Sub("action"));
  return has_obs || has_action ? ShapeMeta::FromConfig(section) : meta;
}

void Task::RequireTaskKey(const ShapeMeta& meta) const {
  for (const KeySpec& key : meta.obs) {
    if (key.type != KeyType::kTask || (task_key_ && key == task_key_->spec())) continue;
    throw ConfigError(
        "{}: a task key has the name 'task' and the shape of the vectors in the section task_key{}",
        config_.Sub("shape_meta").Sub("obs").Where(key.name),
        task_key_ ? ", " + ToString(task_key_->spec().shape) : "; this config has no such section");
  }
}

ShapeMeta Task::ShapesOfDataset() const {
  if (!has_dataset()) env_name();  // throws
  dataset_ = CreateDataset();
  const int action = dataset_->KeyIndex("action");
  ShapeMeta meta = {.obs = dataset_->spec().keys};
  meta.action = meta.obs[static_cast<std::size_t>(action)];
  meta.obs.erase(meta.obs.begin() + action);
  return meta;
}

void Task::RequireShapesOfEnv() const {
  if (!has_env() || !document_->HasOverride("/shape_meta")) return;
  rollout::MatchObsKeys(DescribeEnv().shape_meta, shape_meta_);
}

bool Task::has_env() const { return config_.Sub("env").Has("plugin"); }

std::string Task::env_name() const {
  if (has_env()) return config_.Sub("env").Get<std::string>("plugin");
  throw UsageError(
      "this needs an env, and the config names none: give --env. A policy that was trained on a "
      "dataset alone: dp_bench eval --checkpoint CHECKPOINT --env ENV");
}

plugin::PluginInfo Task::EnvPlugin() const { return catalogue_.Find(PluginKind::kEnv, env_name()); }

std::string Task::env_task() const {
  const auto task = PeekEnvTask(config_.Sub("env"));
  return task ? *task : ReadTaskName(config_, env_name());
}

EnvSpec Task::DescribeEnv() const {
  EnvSpec spec = DescribeBareEnv();
  if (!task_key_) return spec;
  task_key_->Of(env_task(), "the env's task");
  return rollout::WithTaskKey(std::move(spec), task_key_->spec());
}

// Once: an env in another process takes seconds to describe itself.
EnvSpec Task::DescribeBareEnv() const {
  const std::scoped_lock lock(describing_);
  if (described_) return *described_;
  const Config params = config_.Sub("env").Sub("params");
  described_ = isolation_ ? plugin::DescribeIsolatedEnv(EnvPlugin().place(), params, *isolation_)
                          : catalogue_.DescribeEnv(env_name(), params);
  return *described_;
}

std::string Task::TaskText() const {
  const std::string instruction = DescribeEnv().instruction;
  return instruction.empty() ? name_ : instruction;
}

std::unique_ptr<Env> Task::CreateEnv() const {
  std::unique_ptr<Env> env = CreateBareEnv();
  if (!task_key_) return env;
  const std::span<const float> vector = task_key_->Of(env_task(), "the env's task");
  return rollout::WithTaskKey(std::move(env), task_key_->spec(), vector);
}

std::unique_ptr<Env> Task::CreateBareEnv() const {
  const Config params = config_.Sub("env").Sub("params");
  std::unique_ptr<Env> env =
      isolation_ ? plugin::CreateIsolatedEnv(EnvPlugin().place(), params, *isolation_)
                 : catalogue_.Create<Env>(env_name(), params);
  return perturbation_ ? rollout::PerturbActions(std::move(env), *perturbation_) : std::move(env);
}

std::optional<data::MixtureConfig> Task::mixture() const {
  return data::MixtureConfig::Find(config_.Sub("dataset"));
}

bool Task::is_collected() const {
  if (const auto mixed = mixture()) return !mixed->tasks.empty();
  return has_env() && config_.Has("collect") && !config_.Sub("dataset").Has("plugin");
}

bool Task::has_dataset() const {
  return is_collected() || config_.Sub("dataset").Has("plugin") || mixture().has_value();
}

std::vector<const Task*> Task::CollectedTasks() const {
  const auto mixed = mixture();
  if (!mixed) return {this};
  if (!has_env() || !config_.Has("collect")) {
    throw ConfigError("{}: expected an env and a section collect, which say how to collect",
                      config_.Sub("dataset").Sub("mixture").Where("tasks"));
  }
  if (collected_.empty()) {
    for (const std::string& task : mixed->tasks) {
      ExperimentOptions options = options_;
      options.task = task;
      options.overrides.emplace_back("dataset.mixture=null");
      collected_.push_back(std::make_unique<Task>(options));
    }
  }
  std::vector<const Task*> tasks;
  for (const auto& task : collected_) tasks.push_back(task.get());
  return tasks;
}

data::CollectRequest Task::MakeCollectRequest() const {
  DescribeBareEnv();  // adds its defaults, which are part of the origin
  const auto collect = data::CollectConfig::FromConfig(config_.Sub("collect"));
  const plugin::PluginInfo env = EnvPlugin();
  nlohmann::json origin = data::CollectionOrigin(config_.Sub("env").ToJson(), env.version, collect);
  std::function<std::unique_ptr<data::FirstActor>()> first_actor_factory;
  if (collect.takeover) {
    origin["takeover"] = TakeoverOrigin(*collect.takeover);
    first_actor_factory = [this, path = collect.takeover->checkpoint] {
      return LoadFirstActor(path, DescribeBareEnv(), catalogue());
    };
  }
  return {.env_factory = [this] { return CreateBareEnv(); },
          .first_actor_factory = std::move(first_actor_factory),
          .config = collect,
          .origin = origin,
          .env_sha256 = env.Sha256(),
          .output = data::CollectionPath(name_, origin, collect.n_episodes)};
}

std::unique_ptr<Dataset> Task::CreateDataset() const {
  if (dataset_) return std::move(dataset_);
  for (const std::string& note : document_->notes()) core::LogInfo(note);
  const auto mixed = mixture();
  if (!mixed && !task_key_) return OpenDataset();

  std::vector<data::MixturePart> parts;
  if (!mixed) {
    parts.push_back({.name = name_,
                     .dataset = OpenDataset(),
                     .task = is_collected() ? env_task() : "",
                     .or_else = has_env() ? env_task() : name_});
    return std::make_unique<data::Mixture>(std::move(parts), task_key_,
                                           data::MixtureSampling::kProportional);
  }
  if (is_collected()) {
    for (const Task* task : CollectedTasks()) {
      parts.push_back(
          {.name = task->name(), .dataset = task->OpenDataset(), .task = task->env_task()});
    }
  }
  for (const data::MixtureConfig::Source& source : mixed->sources) {
    parts.push_back({.name = source.name,
                     .dataset = OpenSource(source),
                     .task = source.task,
                     .or_else = source.name,
                     .weight = source.weight});
  }
  return std::make_unique<data::Mixture>(std::move(parts), task_key_, mixed->sampling);
}

std::unique_ptr<Dataset> Task::OpenDataset() const {
  const Config section = config_.Sub("dataset");
  if (!is_collected()) {
    return catalogue_.Create<Dataset>(section.Get<std::string>("plugin"), section.Sub("params"));
  }
  const nlohmann::json params = CollectedParams(*dataset_path(), shape_meta_);
  return catalogue_.Create<Dataset>(config::kReplayPlugin,
                                    Config::FromJson(params.dump(), "collected dataset"));
}

std::string Task::ReaderOf(const data::MixtureConfig::Source& source) const {
  return source.plugin.empty() ? catalogue_.ReaderOf(*source.path) : source.plugin;
}

std::unique_ptr<Dataset> Task::OpenSource(const data::MixtureConfig::Source& source) const {
  if (source.path) {
    source.params.ReadAll(nlohmann::json({{"path", *source.path}}).dump());
  }
  return catalogue_.Create<Dataset>(ReaderOf(source), source.params);
}

std::vector<std::string> Task::dataset_plugins() const {
  const auto mixed = mixture();
  if (!has_dataset()) return {};  // of a policy without weights
  if (!mixed && !is_collected()) return {config_.Sub("dataset").Get<std::string>("plugin")};
  std::vector<std::string> plugins;
  if (is_collected()) plugins.emplace_back(config::kReplayPlugin);
  if (mixed) {
    for (const data::MixtureConfig::Source& source : mixed->sources) {
      plugins.push_back(ReaderOf(source));
    }
  }
  std::ranges::sort(plugins);
  plugins.erase(std::unique(plugins.begin(), plugins.end()), plugins.end());
  return plugins;
}

std::optional<fs::path> Task::dataset_path() const {
  if (mixture()) return std::nullopt;
  if (is_collected()) return MakeCollectRequest().output;
  const Config params = config_.Sub("dataset").Sub("params");
  return params.Has("path") ? std::optional<fs::path>(params.Get<std::string>("path"))
                            : std::nullopt;
}

std::vector<fs::path> Task::dataset_paths() const {
  std::vector<fs::path> paths;
  const auto mixed = mixture();
  if (!mixed) {
    if (const auto path = dataset_path()) paths.push_back(*path);
    return paths;
  }
  if (is_collected()) {
    for (const Task* task : CollectedTasks()) paths.push_back(*task->dataset_path());
  }
  for (const data::MixtureConfig::Source& source : mixed->sources) {
    if (source.path) paths.emplace_back(*source.path);
  }
  return paths;
}

}  // namespace dp_bench::task
