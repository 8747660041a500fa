#include "suite/suite_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <utility>

#include "core/errors.h"
#include "core/json.h"
#include "core/sha256.h"
#include "run/manifest.h"
#include "run/run_checkpoint.h"

namespace dp_bench::suite {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kHashDigits = 10;  // of a folder's name

std::string HashOf(const Json& json) { return core::Sha256Hex(json.dump()); }

// A name that differs when the hash does.
std::string Named(const std::string& name, const std::string& hash) {
  return fmt::format("{}-{}", name, hash.substr(0, kHashDigits));
}

// The overrides of a policy that are about its rollouts.
SuitePolicy SettingsOfEnv(const SuitePolicy& policy) {
  SuitePolicy of_env;
  for (const std::string& text : policy.overrides) {
    if (text.starts_with("env.") || text.starts_with("env_runner.")) {
      of_env.overrides.push_back(text);
    }
  }
  return of_env;
}

// Steps with the same verb, policy, env and settings; the tasks of an env count as one.
std::string TrialOf(const char* verb, const std::string& policy, const SuiteTask& task) {
  return fmt::format("{} {} {} {} {}", verb, policy, task.env, task.obs,
                     fmt::join(task.overrides, " "));
}

void SetSeed(std::uint64_t seed, config::ConfigRequest* request) {
  for (const std::string& text : request->overrides) {
    if (!text.starts_with("training.seed=")) continue;
    throw UsageError("{}: the suite's seeds set training.seed; give \"seeds\": [...]", text);
  }
  request->overrides.push_back(fmt::format("training.seed={}", seed));
}

class StepList {
 public:
  StepList(const SuiteFile& suite, const SuiteOptions& options)
      : suite_(suite), options_(options) {}

  std::vector<SuiteStep> Make() {
    for (const SuiteTask& task : suite_.tasks) {
      for (const SuitePolicy& policy : suite_.policies) AddCells(policy, task);
    }
    return std::move(steps_);
  }

 private:
  void AddCells(const SuitePolicy& policy, const SuiteTask& task) {
    if (!policy.is_trained) {  // the training seed means nothing
      AddEvaluation(policy, task, suite_.seeds.front());
      return;
    }
    for (const std::uint64_t seed : suite_.seeds) {
      if (policy.is_multi_task) {
        AddEvaluation(policy, task, seed);
      } else {
        AddRun(policy, task, seed);
      }
    }
  }

  void AddRun(const SuitePolicy& policy, const SuiteTask& task, std::uint64_t seed) {
    config::ConfigRequest request = RequestOf(policy, task);
    const std::optional<std::size_t> collection = CollectionOf(request, task);
    SetSeed(seed, &request);
    if (options_.has_budget) {  // the training must not depend on how many seeds its cell gets
      const int n = run::SelectionSeeds(Resolve(request, policy.name)).n;
      request.overrides.push_back(fmt::format("env_runner.n_selection={}", n));
    }
    SuiteStep step = {.kind = StepKind::kRun,
                      .command = Command("run", request),
                      .trial = TrialOf("run", policy.name, task)};
    SetCell(policy, task, seed, HashOf({{"run", OfCell(Resolve(request, policy.name))}}), &step);
    if (collection) {
      step.needs = {*collection};
      step.command.insert(step.command.begin() + 1,
                          {"--dataset", steps_[*collection].product.string()});
    }
    steps_.push_back(std::move(step));
  }

  void AddEvaluation(const SuitePolicy& policy, const SuiteTask& task, std::uint64_t seed) {
    SuiteStep step = {.kind = StepKind::kEvaluate, .trial = TrialOf("eval", policy.name, task)};
    config::ConfigRequest request = RequestOf(policy, task);
    Json of_policy;
    fs::path checkpoint = policy.checkpoint;
    if (policy.is_multi_task) {
      const std::size_t training = TrainingOf(policy, seed);
      step.needs = {training};
      of_policy = training_hashes_.at(training);
      checkpoint = steps_[training].product;
      request = RequestOf(SettingsOfEnv(policy), task);  // the others are those of its training
    } else if (!checkpoint.empty()) {
      checkpoint = run::FindCheckpoint(checkpoint).folder;  // a better one may come meanwhile
      of_policy = run::CheckpointHash(checkpoint);
    }
    const std::string hash =
        HashOf({{"weights", of_policy}, {"eval", OfCell(options_.resolve(request))}});
    step.command = Command("eval", request);
    if (!checkpoint.empty()) {
      step.command.insert(step.command.begin() + 1, {"--checkpoint", checkpoint.string()});
    }
    SetCell(policy, task, seed, hash, &step);
    steps_.push_back(std::move(step));
  }

  // The training of one policy for all tasks. Its env is that of the first task.
  std::size_t TrainingOf(const SuitePolicy& policy, std::uint64_t seed) {
    const auto known = trainings_.find({policy.name, seed});
    if (known != trainings_.end()) return known->second;
    SuiteTask first = suite_.tasks.front();
    first.overrides.clear();                                              // of that task alone
    if (!policy.config.empty()) first.env = first.obs = first.task = "";  // it has its own
    config::ConfigRequest request = RequestOf(policy, first);
    SetSeed(seed, &request);
    const Json config = Resolve(request, policy.name);
    if (!config.contains("/dataset/mixture"_json_pointer)) {
      throw ConfigError("{}: multi_task needs dataset.mixture, the datasets of all tasks",
                        policy.name);
    }
    SuiteStep step = {.kind = StepKind::kTrain,
                      .title = fmt::format("{} on all tasks{}", policy.name, SeedText(seed)),
                      .command = Command("train", request),
                      .trial = TrialOf("train", policy.name, first)};
    const std::string hash = HashOf({{"train", run::WithoutMachineKeys(config)}});
    Place("all_tasks", seed, policy, hash, &step);
    steps_.push_back(std::move(step));
    training_hashes_[steps_.size() - 1] = hash;
    trainings_[{policy.name, seed}] = steps_.size() - 1;
    return steps_.size() - 1;
  }

  // The same demonstrations are collected once.
  std::optional<std::size_t> CollectionOf(const config::ConfigRequest& request,
                                          const SuiteTask& task) {
    config::ConfigRequest of_env = request;
    of_env.policy.clear();
    const Json config = Resolve(request, request.policy);
    if (!config.contains("collect") || config.contains("/dataset/plugin"_json_pointer)) {
      return std::nullopt;
    }
    const std::string hash = HashOf(
        run::WithoutMachineKeys({{"env", config.at("env")}, {"collect", config.at("collect")}}));
    const auto [known, is_new] = collections_.try_emplace(hash, steps_.size());
    if (is_new) {
      const fs::path folder = options_.folder / "datasets" / Named(task.name, hash);
      of_env.overrides.clear();  // those of a policy would be unknown
      for (const char* section : {"env", "collect"}) {
        of_env.overrides.push_back(fmt::format("{}={}", section, config.at(section).dump()));
      }
      const Json::json_pointer isolate("/env_runner/isolate");
      if (config.contains(isolate)) {
        of_env.overrides.push_back("env_runner.isolate=" + config.at(isolate).dump());
      }
      steps_.push_back({.kind = StepKind::kCollect,
                        .title = "demonstrations of " + task.name,
                        .folder = folder,
                        .product = folder / "demonstrations.zarr",
                        .command = Command("collect", of_env),
                        .trial = TrialOf("collect", "", task),
                        .hash = hash});
    }
    std::vector<std::string>& tasks = steps_[known->second].tasks;
    if (std::ranges::find(tasks, task.name) == tasks.end()) tasks.push_back(task.name);
    return known->second;
  }

  // What would make cells that can neither be continued nor counted.
  Json Resolve(const config::ConfigRequest& request, const std::string& policy) const {
    Json config = options_.resolve(request);
    if (core::ValueAt(config, "/env_runner/n_test") == 0) {
      throw ConfigError("{}: env_runner.n_test is 0, so there would be nothing to count", policy);
    }
    if (core::ValueAt(config, "/checkpoint/save_last_ckpt") == false) {
      throw ConfigError(
          "{}: checkpoint.save_last_ckpt is false, so an interrupted evaluation could not be "
          "continued",
          policy);
    }
    return config;
  }

  // What the outcomes of a cell's test seeds depend on.
  Json OfCell(Json config) const {
    if (options_.has_budget && config.contains("env_runner")) config["env_runner"].erase("n_test");
    return run::WithoutMachineKeys(std::move(config));
  }

  config::ConfigRequest RequestOf(const SuitePolicy& policy, const SuiteTask& task) const {
    config::ConfigRequest request = {
        .policy = policy.policy, .env = task.env, .obs = task.obs, .task = task.task};
    request.config = policy.config;
    request.config_dirs = options_.config_dirs;
    for (const std::vector<std::string>* overrides :
         {&suite_.overrides, &task.overrides, &policy.overrides, &options_.overrides}) {
      request.overrides.insert(request.overrides.end(), overrides->begin(), overrides->end());
    }
    if (!options_.device.empty()) {
      request.overrides.push_back("training.device=" + options_.device);
    }
    return request;
  }

  std::vector<std::string> Command(const char* verb, const config::ConfigRequest& request) const {
    std::vector<std::string> words = {verb};
    const auto add = [&words](const char* option, const std::string& value) {
      if (!value.empty()) words.insert(words.end(), {option, value});
    };
    add("--config", request.config.string());
    add("--policy", request.policy);
    add("--env", request.env);
    add("--obs", request.obs);
    add("--task", request.task);
    for (const fs::path& dir : options_.config_dirs) add("--config-dir", dir.string());
    for (const fs::path& dir : options_.plugin_dirs) add("--plugin-dir", dir.string());
    words.insert(words.end(), request.overrides.begin(), request.overrides.end());
    return words;
  }

  // cells/<policy>/<name>/seed_<n>-<hash>
  void Place(const std::string& name, std::uint64_t seed, const SuitePolicy& policy,
             const std::string& hash, SuiteStep* step) {
    step->folder =
        options_.folder / "cells" / policy.name / name / Named(fmt::format("seed_{}", seed), hash);
    step->product = step->folder / "run";
  }

  void SetCell(const SuitePolicy& policy, const SuiteTask& task, std::uint64_t seed,
               const std::string& hash, SuiteStep* step) {
    const std::string of_seed = policy.is_trained ? SeedText(seed) : "";
    step->title = fmt::format("{} on {}{}", policy.name, task.name, of_seed);
    Place(task.name, seed, policy, hash, step);
    step->cell = compare::SuiteCell{
        .policy = policy.name,
        .task = task.name,
        .seed = seed,
        .config_sha256 = hash,
        .folder = step->product.lexically_relative(options_.folder).generic_string()};
  }

  std::string SeedText(std::uint64_t seed) const {
    return suite_.seeds.size() > 1 ? fmt::format(", seed {}", seed) : "";
  }

  const SuiteFile& suite_;
  const SuiteOptions& options_;
  std::vector<SuiteStep> steps_;
  std::map<std::string, std::size_t> collections_;                          // by hash
  std::map<std::pair<std::string, std::uint64_t>, std::size_t> trainings_;  // by policy and seed
  std::map<std::size_t, std::string> training_hashes_;
};

}  // namespace

std::vector<SuiteStep> StepsOf(const SuiteFile& suite, const SuiteOptions& options) {
  return StepList(suite, options).Make();
}

std::vector<std::string> CommandOf(const SuiteStep& step) {
  std::vector<std::string> command = step.command;
  if (step.n_test > 0) command.push_back(fmt::format("env_runner.n_test={}", step.n_test));
  return command;
}

}  // namespace dp_bench::suite
