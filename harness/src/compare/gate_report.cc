#include "compare/gate_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "compare/sequential_test.h"
#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/json.h"

namespace dp_bench::compare {
namespace {

std::vector<std::string> TitlesOf(const std::vector<run::RunFolder>& runs) {
  std::vector<std::string> titles;
  for (const run::RunFolder& run : runs) titles.push_back(run::TaskTitle(run));
  return titles;
}

// Whether every file names a task, and no two name the same.
bool AreDistinct(const std::vector<std::string>& titles) {
  const std::set<std::string> set(titles.begin(), titles.end());
  return set.size() == titles.size() && !set.contains("");
}

std::string Listed(const std::vector<run::RunFolder>& runs) {
  std::vector<std::string> rows;
  for (const run::RunFolder& run : runs) {
    const std::string task = run::TaskTitle(run);
    rows.push_back(
        fmt::format("{} ({})", run.path.string(), task.empty() ? "names no task" : task));
  }
  return fmt::format("{}", fmt::join(rows, ", "));
}

// The index of each baseline's candidate; empty if it is ambiguous.
std::vector<std::size_t> FindOrder(const std::vector<std::string>& baselines,
                                   const std::vector<std::string>& candidates) {
  std::vector<std::size_t> order;
  if (baselines.size() != candidates.size()) return order;
  const bool by_name = AreDistinct(baselines) && AreDistinct(candidates);
  for (std::size_t i = 0; i < baselines.size(); ++i) {
    std::size_t place = i;
    if (by_name) {
      place = static_cast<std::size_t>(std::ranges::find(candidates, baselines[i]) -
                                       candidates.begin());
      if (place == candidates.size()) return {};
    } else if (!baselines[i].empty() && !candidates[i].empty() && baselines[i] != candidates[i]) {
      return {};
    }
    order.push_back(place);
  }
  return order;
}

void MakeUnique(std::vector<TaskPair>* pairs) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < pairs->size(); ++i) {
    std::string& task = (*pairs)[i].task;
    if (task.empty() || names.contains(task)) task = fmt::format("{} #{}", task, i + 1);
    names.insert(task);
  }
}

// The first task with this status, or null.
const GateResult* Find(const std::vector<GateResult>& tasks, GateStatus status) {
  const auto found = std::ranges::find(tasks, status, &GateResult::status);
  return found == tasks.end() ? nullptr : &*found;
}

std::string NamesOf(const std::vector<GateResult>& tasks, GateStatus status) {
  std::vector<std::string> names;
  for (const GateResult& task : tasks) {
    if (task.status == status) names.push_back(task.task);
  }
  return fmt::format("{}", fmt::join(names, "; "));
}

void Decide(GateReport* report) {
  const std::vector<GateResult>& tasks = report->tasks;
  for (const GateStatus status : {GateStatus::kNotComparable, GateStatus::kInfra}) {
    const GateResult* task = Find(tasks, status);
    if (task == nullptr) continue;
    report->status = status;
    report->reason = fmt::format("{}: {}", task->task, task->reason);
    return;
  }
  const std::string named = NamesOf(tasks, GateStatus::kFail);
  if (!named.empty() || report->log_fail_evidence >= -std::log(report->config.alpha)) {
    report->status = GateStatus::kFail;
    report->reason = named.empty() ? "all tasks together show a drop, but no single task does"
                                   : "a drop is shown in " + named;
    return;
  }
  const std::string open = NamesOf(tasks, GateStatus::kInconclusive);
  report->status = open.empty() ? GateStatus::kPass : GateStatus::kInconclusive;
  report->reason =
      open.empty() ? fmt::format("all {} tasks pass", tasks.size()) : "no verdict yet in " + open;
}

constexpr const char* kGateFormat = "dp_bench.gate.v1";
constexpr std::size_t kMaxGateBytes = std::size_t{64} << 20;

SequentialTestConfig ConfigFrom(const core::JsonView& json) {
  return {.margin = json.Get<double>("margin"),
          .alpha = json.Get<double>("alpha"),
          .beta = json.Get<double>("beta"),
          .max_pairs = json.Get<int>("max_pairs"),
          .block_size = json.Get<int>("block_size"),
          .decided_by = json.GetOptional<std::string>("decided_by").value_or("success")};
}

// The test itself is not read: the gate that continues counts the same pairs again.
GateProgress ProgressFrom(const core::JsonView& row, SequentialTestConfig of_task) {
  const core::JsonView test = row.At("test");
  const SequentialTestConfig found = ConfigFrom(test.At("config"));
  of_task.decided_by = found.decided_by;  // each baseline has its own
  if (found != of_task) {
    throw DataError("the test of '{}' has other settings than the gate",
                    row.Get<std::string>("task"));
  }
  GateProgress progress = {.decided_by = found.decided_by,
                           .outcomes_hash = row.Get<std::string>("outcomes_hash"),
                           .checkpoint_hash = row.Get<std::string>("checkpoint_hash")};
  for (const char* key : {"n_lost", "n_gained", "n_same"}) {
    const int n = test.At("counts").Get<int>(key);
    if (n < 0 || n > of_task.max_pairs - progress.n_pairs) throw DataError("{} is {}", key, n);
    progress.n_pairs += n;
  }
  return progress;
}

StoppedGate StoppedGateFrom(const core::JsonView& json) {
  if (json.Get<std::string>("format") != kGateFormat) {
    throw DataError("its format is not {}", kGateFormat);
  }
  const auto name = json.Get<std::string>("status");
  const std::optional<GateStatus> status = StatusOf(name);
  if (!status) throw DataError("its status is '{}'", name);
  StoppedGate stopped = {.status = *status, .config = ConfigFrom(json.At("config")), .tasks = {}};
  const SequentialRule is_in_range(stopped.config);
  const std::vector<core::JsonView> tasks = json.Elements("tasks");
  if (tasks.empty()) throw DataError("it has no tasks");
  const SequentialTestConfig of_task = ConfigOfTask(stopped.config, tasks.size());
  for (const core::JsonView& row : tasks) {
    stopped.tasks[row.Get<std::string>("task")] = ProgressFrom(row, of_task);
  }
  return stopped;
}

std::string Joined(std::vector<std::string> names) {
  std::ranges::sort(names);
  return fmt::format("{}", fmt::join(names, "; "));
}

using Json = nlohmann::json;

}  // namespace

std::vector<TaskPair> MatchTasks(std::vector<run::RunFolder> baselines,
                                 std::vector<run::RunFolder> candidates) {
  const std::vector<std::string> titles = TitlesOf(baselines);
  if (baselines.size() == 1 && candidates.size() == 1) {
    return {{titles[0], std::move(baselines[0]), std::move(candidates[0])}};
  }
  const std::vector<std::size_t> order = FindOrder(titles, TitlesOf(candidates));
  if (order.empty()) {
    throw UsageError(
        "it is not clear which candidate belongs to which baseline. Expected one candidate per "
        "baseline, of the same task; found the baselines {} and the candidates {}",
        Listed(baselines), Listed(candidates));
  }
  std::vector<TaskPair> pairs;
  for (std::size_t i = 0; i < order.size(); ++i) {
    pairs.push_back({titles[i], std::move(baselines[i]), std::move(candidates[order[i]])});
  }
  MakeUnique(&pairs);
  return pairs;
}

SequentialTestConfig ConfigOfTask(SequentialTestConfig config, std::size_t n_tasks) {
  config.alpha /= static_cast<double>(n_tasks);
  return config;
}

GateReport JudgeTasks(const SequentialTestConfig& config, std::vector<GateResult> tasks) {
  DPB_ASSERT(!tasks.empty());
  std::vector<double> log_evidence;
  for (const GateResult& task : tasks) log_evidence.push_back(task.log_fail_evidence());
  GateReport report = {.config = config,
                       .tasks = std::move(tasks),
                       .log_fail_evidence = LogMeanEvidence(log_evidence)};
  if (report.tasks.size() == 1) {
    report.status = report.tasks[0].status;
    report.reason = report.tasks[0].reason;
    return report;
  }
  const std::vector<bool> is_named = NameDrops(log_evidence, config.alpha);
  for (std::size_t i = 0; i < report.tasks.size(); ++i) {
    GateResult& task = report.tasks[i];
    const bool has_verdict =
        task.status == GateStatus::kPass || task.status == GateStatus::kInconclusive;
    if (!is_named[i] || !has_verdict) continue;
    task.status = GateStatus::kFail;
    task.reason = "with the evidence of the other tasks a drop is shown";
  }
  Decide(&report);
  return report;
}

StoppedGate ReadStoppedGate(const std::filesystem::path& file) {
  return ParseStoppedGate(core::ReadTextFile(file, kMaxGateBytes), file.string());
}

StoppedGate ParseStoppedGate(std::string_view text, const std::string& what) {
  try {
    const nlohmann::json json = core::ParseJson(text, "the file");
    return StoppedGateFrom(core::JsonView(json, "the file"));
  } catch (const Error& fault) {
    throw DataError("{} is not what dp_bench gate --json wrote: {}", what, fault.what());
  }
}

std::vector<Mismatch> FindChangedSettings(const StoppedGate& stopped, const AskedSettings& asked,
                                          const std::vector<TaskPair>& pairs) {
  std::vector<Mismatch> changes;
  if (stopped.status != GateStatus::kInconclusive) {
    changes.push_back({"status", std::string(StatusName(stopped.status)), "expected INCONCLUSIVE"});
  }
  const auto compare = [&changes](const char* field, double before,
                                  const std::optional<double>& now) {
    if (!now || *now == before) return;
    changes.push_back({field, fmt::format("{}", before), fmt::format("{}", *now)});
  };
  compare("margin", stopped.config.margin, asked.margin);
  compare("alpha", stopped.config.alpha, asked.alpha);
  compare("beta", stopped.config.beta, asked.beta);
  if (asked.max_pairs && *asked.max_pairs < stopped.config.max_pairs) {
    changes.push_back({"max_pairs", std::to_string(stopped.config.max_pairs),
                       fmt::format("{}, which is fewer", *asked.max_pairs)});
  }
  std::vector<std::string> before;
  std::vector<std::string> now;
  for (const auto& [task, progress] : stopped.tasks) before.push_back(task);
  for (const TaskPair& pair : pairs) now.push_back(pair.task);
  if (Joined(before) != Joined(now)) changes.push_back({"tasks", Joined(before), Joined(now)});
  return changes;
}

Json ToJson(const GateReport& report) {
  Json tasks = Json::array();
  for (const GateResult& task : report.tasks) tasks.push_back(ToJson(task));
  return {{"format", kGateFormat},
          {"status", StatusName(report.status)},
          {"exit_code", ExitCodeOf(report.status)},
          {"reason", report.reason},
          {"config", report.config},
          {"log_fail_evidence", report.log_fail_evidence},
          {"tasks", tasks}};
}

}  // namespace dp_bench::compare
