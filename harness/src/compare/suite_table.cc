#include "compare/suite_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/json.h"
#include "run/episode_log.h"
#include "run/run_files.h"

namespace dp_bench::compare {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxTableBytes = std::size_t{256} << 20;
constexpr std::size_t kMaxEpisodesBytes = std::size_t{64} << 20;
constexpr const char* kSplit = "test";
constexpr const char* kAtEnd = "success_at_end";  // a metric of envs

void VisitCell(const core::JsonFields& fields, SuiteCell* cell) {
  fields("policy", &cell->policy);
  fields("task", &cell->task);
  fields("seed", &cell->seed);
  fields("config_sha256", &cell->config_sha256);
  fields("first_seed", &cell->first_seed);
  fields("successes", &cell->successes);
  fields.IfSet("successes_at_end", &cell->successes_at_end);
  fields("n_failed", &cell->n_failed);
  fields.IfSet("n_policy_faults", &cell->n_policy_faults);
  fields("mean_score", &cell->mean_score);
  fields.IfSet("env_version", &cell->env_version);
  fields("folder", &cell->folder);
}

void VisitTask(const core::JsonFields& fields, SuiteTaskName* task) {
  fields("name", &task->name);
  fields.IfSet("group", &task->group);
}

void VisitExpert(const core::JsonFields& fields, SuiteExpert* expert) {
  fields("task", &expert->task);
  fields("config_sha256", &expert->config_sha256);
  fields("n_success", &expert->n_success);
  fields("n", &expert->n);
}

void VisitMissing(const core::JsonFields& fields, MissingCell* cell) {
  fields("policy", &cell->policy);
  fields("task", &cell->task);
  fields("seed", &cell->seed);
}

template <class T, class Visit>
Json ListOf(const std::vector<T>& values, const Visit& visit) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(core::ToFields(value, visit));
  return list;
}

template <class T, class Visit>
std::vector<T> ReadList(const core::JsonView& view, const char* key, const Visit& visit) {
  std::vector<T> values;
  for (const core::JsonView& element : view.Elements(key)) {
    values.push_back(core::FromFields<T>(element, visit));
  }
  return values;
}

// In the order of their seeds. RunFolder leaves metrics out.
std::vector<run::EpisodeRecord> TestEpisodes(const run::RunFolder& run, bool with_end) {
  std::vector<run::EpisodeRecord> episodes = run.episodes;
  if (with_end) {
    const std::filesystem::path file = run.path / run::kEpisodesFile;
    const std::vector<std::string> metrics = {kAtEnd};
    episodes =
        run::ParseEpisodes(core::ReadTextFile(file, kMaxEpisodesBytes), file.string(), metrics);
  }
  std::erase_if(episodes, [](const run::EpisodeRecord& record) { return record.split != kSplit; });
  std::ranges::sort(episodes, {}, &run::EpisodeRecord::seed);
  return episodes;
}

// The policy is not to blame for the episodes in which it gave no actions, none of which succeed.
std::optional<double> WithoutFaults(std::ptrdiff_t n_success, std::size_t n, int n_faults) {
  const int n_others = static_cast<int>(n) - n_faults;
  if (n_faults == 0 || n_others <= 0) return std::nullopt;
  return static_cast<double>(n_success) / n_others;
}

// With both rates where they differ.
Json CellJson(const SuiteCell& cell) {
  Json json = core::ToFields(cell, &VisitCell);
  const auto n_success = std::ranges::count(cell.successes, '1');
  const auto rate = WithoutFaults(n_success, cell.successes.size(), cell.n_policy_faults);
  if (!rate) return json;
  json["success_rate"] =
      static_cast<double>(n_success) / static_cast<double>(cell.successes.size());
  json["success_rate_without_policy_faults"] = *rate;
  return json;
}

bool IsOutcomes(const std::string& text) {
  return text.find_first_not_of("01") == std::string::npos;
}

// How many test seeds say as much as those of these cells, of which a training seed may have fewer
// than another (Kish 1965: the square of the sum of the weights over the sum of their squares).
std::size_t CountTestSeeds(std::span<const SuiteCell* const> cells) {
  std::map<std::uint64_t, double> weights;
  for (const SuiteCell* cell : cells) {
    for (std::uint64_t i = 0; i < cell->successes.size(); ++i) weights[cell->first_seed + i] += 1.0;
  }
  double sum = 0.0;
  double squares = 0.0;
  for (const auto& [seed, weight] : weights) {
    sum += weight;
    squares += weight * weight;
  }
  return squares > 0.0 ? static_cast<std::size_t>(sum * sum / squares) : 0;
}

// Of the outcomes of all training seeds on `n_units` test seeds.
RateInterval RateOf(const std::string& outcomes, std::size_t n_units) {
  const auto n_success = static_cast<int>(std::ranges::count(outcomes, '1'));
  const auto n = static_cast<int>(outcomes.size());
  RateInterval rate =
      WilsonIntervalOf(static_cast<double>(n_success) / n, static_cast<int>(n_units));
  rate.n_success = n_success;
  rate.n = n;
  return rate;
}

// Over the tasks of a group; none: over all.
std::optional<SuiteMean> MeanOf(const SuiteTable& table, std::span<const SuiteRate> rates,
                                const std::string& policy,
                                const std::optional<std::string>& group) {
  SuiteMean mean = {.policy = policy, .group = group, .low = 0.0};
  double below = 0.0;  // squares of the distances to the bounds
  double above = 0.0;
  double at_end = 0.0;
  int n_at_end = 0;
  for (const SuiteTaskName& task : table.tasks) {
    if (group && task.group != *group) continue;
    ++mean.n_wanted;
    const auto rate = std::ranges::find_if(rates, IsOf(policy, task.name));
    mean.is_part = mean.is_part || rate == rates.end() || rate->is_part;
    if (rate == rates.end()) continue;
    ++mean.n_tasks;
    mean.mean += rate->any_time.rate;
    below += std::pow(rate->any_time.rate - rate->any_time.low, 2);
    above += std::pow(rate->any_time.high - rate->any_time.rate, 2);
    if (!rate->at_end) continue;
    at_end += rate->at_end->rate;
    ++n_at_end;
  }
  if (mean.n_tasks == 0) return std::nullopt;
  mean.mean /= mean.n_tasks;
  mean.low = mean.mean - std::sqrt(below) / mean.n_tasks;
  mean.high = mean.mean + std::sqrt(above) / mean.n_tasks;
  if (n_at_end == mean.n_tasks) mean.at_end = at_end / n_at_end;
  return mean;
}

// Throws Error{kData} for two policies, tasks or cells of one name: their episodes would count
// twice.
void RequireDistinct(const SuiteTable& table, const core::JsonView& view) {
  std::set<std::string> policies;
  std::set<std::string> tasks;
  std::set<std::tuple<std::string, std::string, std::uint64_t>> cells;
  for (const std::string& policy : table.policies) {
    if (!policies.insert(policy).second) view.Fail("the policy '{}' is there twice", policy);
  }
  for (const SuiteTaskName& task : table.tasks) {
    if (!tasks.insert(task.name).second) view.Fail("the task '{}' is there twice", task.name);
  }
  for (const SuiteCell& cell : table.cells) {
    if (cells.emplace(cell.policy, cell.task, cell.seed).second) continue;
    view.Fail("the cell of {} on {} with training seed {} is there twice", cell.policy, cell.task,
              cell.seed);
  }
}

}  // namespace

SuiteCell OutcomesOf(const run::RunFolder& run) {
  SuiteCell cell;
  const bool has_end = run.eval_log.contains(fmt::format("{}/mean_{}", kSplit, kAtEnd));
  const std::vector<run::EpisodeRecord> episodes = TestEpisodes(run, has_end);
  if (episodes.empty()) throw DataError("'{}' has no test episodes", run.path.string());
  cell.first_seed = episodes.front().seed;
  for (const run::EpisodeRecord& record : episodes) {
    if (record.seed != cell.first_seed + cell.successes.size()) {
      throw DataError("'{}': expected test seeds that follow each other, found {} after {}",
                      run.path.string(), record.seed, cell.first_seed + cell.successes.size() - 1);
    }
    cell.successes += record.success ? '1' : '0';
    if (has_end) {
      const bool is_at_end = !record.metrics.empty() && record.metrics[0] > 0.5;
      cell.successes_at_end += is_at_end && !record.has_failed() ? '1' : '0';
    }
    cell.mean_score += record.score / static_cast<double>(episodes.size());
    cell.n_failed += record.failure_reason ? 1 : 0;
    cell.n_policy_faults += run::IsPolicyFault(record.failure_reason.value_or("")) ? 1 : 0;
  }
  return cell;
}

std::vector<std::string> GroupsOf(const SuiteTable& table) {
  std::vector<std::string> groups;
  for (const SuiteTaskName& task : table.tasks) {
    if (std::ranges::find(groups, task.group) == groups.end()) groups.push_back(task.group);
  }
  return groups;
}

std::vector<const SuiteCell*> CellsOf(const SuiteTable& table, const std::string& policy,
                                      const std::string& task) {
  std::vector<const SuiteCell*> cells;
  for (const SuiteCell& cell : table.cells) {
    if (IsOf(policy, task)(cell)) cells.push_back(&cell);
  }
  return cells;
}

std::map<std::string, std::set<std::string>> EnvVersionsOf(const SuiteTable& table,
                                                           const std::string& task) {
  std::map<std::string, std::set<std::string>> versions;
  for (const SuiteCell& cell : table.cells) {
    if (cell.task == task && !cell.env_version.empty()) {
      versions[cell.env_version].insert(cell.policy);
    }
  }
  return versions;
}

std::vector<std::string> VersionFaults(const SuiteTable& table) {
  std::vector<std::string> faults;
  for (const SuiteTaskName& task : table.tasks) {
    std::vector<std::string> found;
    for (const auto& [version, policies] : EnvVersionsOf(table, task.name)) {
      found.push_back(fmt::format("{} ({})", version, fmt::join(policies, ", ")));
    }
    if (found.size() < 2) continue;
    faults.push_back(
        fmt::format("{}: expected cells of one version of the env's plugin, found {}; policies are "
                    "not compared there. Another --output plays all with the current one.",
                    task.name, fmt::join(found, " and ")));
  }
  return faults;
}

bool LacksCells(const SuiteTable& table, const std::string& policy, const std::string& task) {
  return std::ranges::any_of(table.missing, IsOf(policy, task));
}

std::vector<SuiteRate> RatesOf(const SuiteTable& table) {
  std::vector<SuiteRate> rates;
  for (const std::string& policy : table.policies) {
    for (const SuiteTaskName& task : table.tasks) {
      const std::vector<const SuiteCell*> cells = CellsOf(table, policy, task.name);
      if (cells.empty()) continue;
      std::string successes;
      std::string at_end;
      int n_faults = 0;
      for (const SuiteCell* cell : cells) {
        n_faults += cell->n_policy_faults;
        successes += cell->successes;
        at_end += cell->successes_at_end;
      }
      const std::size_t n_units = CountTestSeeds(cells);
      SuiteRate rate = {
          .policy = policy, .task = task.name, .any_time = RateOf(successes, n_units)};
      rate.n_policy_faults = n_faults;
      rate.is_part = LacksCells(table, policy, task.name);
      rate.without_faults = WithoutFaults(rate.any_time.n_success, successes.size(), n_faults);
      if (at_end.size() == successes.size()) rate.at_end = RateOf(at_end, n_units);
      rates.push_back(std::move(rate));
    }
  }
  return rates;
}

std::vector<SuiteMean> MeansOf(const SuiteTable& table) {
  const std::vector<SuiteRate> rates = RatesOf(table);
  const std::vector<std::string> groups = GroupsOf(table);
  std::vector<SuiteMean> means;
  for (const std::string& policy : table.policies) {
    for (const std::string& group : groups) {
      if (groups.size() < 2) continue;  // the same as all tasks
      if (auto mean = MeanOf(table, rates, policy, group)) means.push_back(*mean);
    }
    if (auto mean = MeanOf(table, rates, policy, std::nullopt)) means.push_back(*mean);
  }
  return means;
}

Json ToJson(const SuiteTable& table) {
  Json cells = Json::array();
  Json others = Json::array();
  for (const SuiteCell& cell : table.cells) cells.push_back(CellJson(cell));
  for (const SuiteCell& cell : table.other_cells) others.push_back(CellJson(cell));
  Json json = {{"name", table.name},
               {"policies", table.policies},
               {"tasks", ListOf(table.tasks, &VisitTask)},
               {"seeds", table.seeds},
               {"experts", ListOf(table.experts, &VisitExpert)},
               {"cells", cells},
               {"other_cells", others}};
  if (!table.missing.empty()) json["missing_cells"] = ListOf(table.missing, &VisitMissing);
  return json;
}

SuiteTable ReadSuiteTable(const std::filesystem::path& file) {
  const Json json = core::ReadJsonFile(file, kMaxTableBytes);
  const std::string what = file.string();
  const core::JsonView view(json, what);
  SuiteTable table = {.name = view.Get<std::string>("name"),
                      .policies = view.Get<std::vector<std::string>>("policies"),
                      .tasks = ReadList<SuiteTaskName>(view, "tasks", &VisitTask),
                      .seeds = view.Get<std::vector<std::uint64_t>>("seeds"),
                      .cells = ReadList<SuiteCell>(view, "cells", &VisitCell),
                      .experts = ReadList<SuiteExpert>(view, "experts", &VisitExpert),
                      .other_cells = ReadList<SuiteCell>(view, "other_cells", &VisitCell)};
  if (view.Has("missing_cells")) {
    table.missing = ReadList<MissingCell>(view, "missing_cells", &VisitMissing);
  }
  RequireDistinct(table, view);
  std::vector<SuiteCell> all = table.cells;
  all.insert(all.end(), table.other_cells.begin(), table.other_cells.end());
  for (const SuiteCell& cell : all) {
    const bool has_end = !cell.successes_at_end.empty();
    if (IsOutcomes(cell.successes) && IsOutcomes(cell.successes_at_end) &&
        (!has_end || cell.successes_at_end.size() == cell.successes.size())) {
      continue;
    }
    view.Fail("the cell of {} on {}: expected one 0 or 1 for each test seed", cell.policy,
              cell.task);
  }
  return table;
}

}  // namespace dp_bench::compare
