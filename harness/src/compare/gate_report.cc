#include "compare/gate_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "compare/joint_evidence.h"
#include "dp_bench/error.h"

namespace dp_bench {
namespace {

std::vector<std::string> TitlesOf(const std::vector<RunFolder>& runs) {
  std::vector<std::string> titles;
  for (const RunFolder& run : runs) titles.push_back(TaskTitle(run));
  return titles;
}

// Each names a task, and each another one.
bool AreDistinct(const std::vector<std::string>& titles) {
  const std::set<std::string> set(titles.begin(), titles.end());
  return set.size() == titles.size() && !set.contains("");
}

std::string Listed(const std::vector<RunFolder>& runs) {
  std::vector<std::string> rows;
  for (const RunFolder& run : runs) {
    const std::string task = TaskTitle(run);
    rows.push_back(
        fmt::format("{} ({})", run.path.string(), task.empty() ? "names no task" : task));
  }
  return fmt::format("{}", fmt::join(rows, ", "));
}

// The place of each baseline's candidate; empty when it is in doubt.
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

// The first task with this status; null when there is none.
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
    report->reason = named.empty() ? "all tasks together show a drop, no single one does"
                                   : "a drop of the success rate is shown in " + named;
    return;
  }
  const std::string open = NamesOf(tasks, GateStatus::kInconclusive);
  report->status = open.empty() ? GateStatus::kPass : GateStatus::kInconclusive;
  report->reason = open.empty() ? fmt::format("all {} tasks pass", tasks.size())
                                : "nothing is shown yet in " + open;
}

}  // namespace

std::vector<TaskPair> MatchTasks(std::vector<RunFolder> baselines,
                                 std::vector<RunFolder> candidates) {
  const std::vector<std::string> titles = TitlesOf(baselines);
  if (baselines.size() == 1 && candidates.size() == 1) {
    return {{titles[0], std::move(baselines[0]), std::move(candidates[0])}};
  }
  const std::vector<std::size_t> order = FindOrder(titles, TitlesOf(candidates));
  if (order.empty()) {
    throw Error(ErrorCode::kUsage,
                fmt::format("which candidate belongs to which baseline is not clear. Wanted is one "
                            "candidate per baseline, of the same task; found are the baselines {} "
                            "and the candidates {}",
                            Listed(baselines), Listed(candidates)));
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
    task.reason = "with the evidence of the other tasks a drop of the success rate is shown";
  }
  Decide(&report);
  return report;
}

}  // namespace dp_bench
