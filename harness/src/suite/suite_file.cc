#include "suite/suite_file.h"

#include <algorithm>
#include <set>
#include <utility>

#include "config/loader.h"
#include "config/name.h"
#include "core/atomic_file.h"
#include "core/errors.h"
#include "dp_bench/config_keys.h"

namespace dp_bench::suite {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

SuitePolicy ReadPolicy(const Config& config) {
  SuitePolicy policy;
  std::string checkpoint;
  std::string file;
  const ConfigKeys keys(config);
  keys("policy", &policy.policy, "a row: configs/policy/<policy>.json");
  keys("config", &file,
       "instead of policy: a config file that has it; with multi_task also its env and data");
  keys("checkpoint", &checkpoint, "instead of policy: a checkpoint or run folder to evaluate");
  keys("trained", &policy.is_trained,
       "false: the policy has no weights (remote, random, constant_action) and is only evaluated");
  keys("multi_task", &policy.is_multi_task,
       "one training for all tasks, which dataset.mixture names; evaluated on each");
  keys("overrides", &policy.overrides, "config values of its runs, as on the command line");
  policy.checkpoint = checkpoint;
  policy.config = file;
  const int n_sources =
      (policy.policy.empty() ? 0 : 1) + (file.empty() ? 0 : 1) + (checkpoint.empty() ? 0 : 1);
  if (n_sources != 1) {
    throw ConfigError("{}: expected one of policy, config and checkpoint", config.Where("policy"));
  }
  if (!checkpoint.empty()) policy.is_trained = false;
  if ((policy.is_multi_task || !file.empty()) && !policy.is_trained) {
    throw ConfigError("{}: multi_task and config need a policy that is trained",
                      config.Where("trained"));
  }
  std::string name = policy.policy;
  if (!file.empty()) name = policy.config.stem().string();
  if (!checkpoint.empty()) name = core::NameOf(policy.checkpoint).string();
  policy.name = config::RequireName(config.Get("name", name, "of the row"), config.Where("name"));
  return policy;
}

// An entry may list several tasks of one env.
std::vector<SuiteTask> ReadTasks(const Config& config) {
  SuiteTask task;
  Texts names;
  std::string name;
  const ConfigKeys keys(config);
  task.env = config.Require<std::string>("env", "configs/task/<env>.json");
  keys("obs", &task.obs, "configs/task/<env>_<obs>.json is used instead");
  keys("tasks", &names, "tasks of the env (env.params.task), a column each; none: its own");
  keys("name", &name, "of the column, if there is only one; by default that of the task");
  keys("group", &task.group, "columns of one group have a mean of their own");
  keys("overrides", &task.overrides, "config values of its runs, as on the command line");
  if (task.group.find_first_of(",\"{}^~\\") != std::string::npos) {
    throw ConfigError("{}: expected a name without the characters of CSV and LaTeX, found '{}'",
                      config.Where("group"), task.group);
  }
  if (!name.empty() && names.size() > 1) {
    throw ConfigError("{}: {} tasks cannot have one name", config.Where("name"), names.size());
  }
  std::vector<SuiteTask> tasks;
  if (names.empty()) names.emplace_back();
  for (const std::string& each : names) {
    task.task = each;
    task.name = config::RequireName(!name.empty()  ? name
                                    : each.empty() ? task.env
                                                   : each,
                                    config.Where("name"));
    tasks.push_back(task);
  }
  return tasks;
}

// Two rows or columns of one name would share their folders.
template <class T>
void RequireDistinct(const std::vector<T>& entries, const Config& config, const char* key) {
  std::set<std::string> names;
  for (const T& entry : entries) {
    if (names.insert(entry.name).second) continue;
    throw ConfigError("{}: two entries have the name '{}'; give one of them another \"name\"",
                      config.Where(key), entry.name);
  }
}

}  // namespace

SuiteFile SuiteFile::FromConfig(const Config& config) {
  SuiteFile suite;
  suite.name = config::RequireName(config.Require<std::string>("name", "of the table"),
                                   config.Where("name"));
  for (const Config& entry : config.List("policies", "the rows")) {
    suite.policies.push_back(ReadPolicy(entry));
  }
  for (const Config& entry : config.List("tasks", "the columns")) {
    for (SuiteTask& task : ReadTasks(entry)) suite.tasks.push_back(std::move(task));
  }
  std::vector<std::int64_t> seeds(suite.seeds.begin(), suite.seeds.end());
  const ConfigKeys keys(config);
  keys("seeds", &seeds, "values of training.seed; each policy is trained with each");
  keys("overrides", &suite.overrides, "config values of every run, as on the command line");
  if (suite.policies.empty() || suite.tasks.empty()) {
    throw ConfigError("{}: expected at least one entry in \"policies\" and one in \"tasks\"",
                      config.Where());
  }
  std::vector<std::int64_t> sorted = seeds;
  std::ranges::sort(sorted);
  if (sorted.empty() || sorted.front() < 0 || std::ranges::adjacent_find(sorted) != sorted.end()) {
    throw ConfigError("{}: expected different seeds of 0 or more", config.Where("seeds"));
  }
  suite.seeds.assign(seeds.begin(), seeds.end());
  RequireDistinct(suite.policies, config, "policies");
  RequireDistinct(suite.tasks, config, "tasks");
  return suite;
}

SuiteFile ReadSuiteFile(const fs::path& file) {
  const Config config = config::LoadConfig({.config = file});
  SuiteFile suite = SuiteFile::FromConfig(config);
  config.RejectUnread();
  return suite;
}

}  // namespace dp_bench::suite
