// See gate.txt.mustache, gate.md.mustache, gate.xml.mustache (JUnit) and gate_plan.txt.mustache.
#include "report/gate_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "compare/graded_score.h"
#include "report/render.h"

namespace dp_bench::report {
namespace {

using Json = nlohmann::json;

bool HasVerdict(const compare::GateResult& result) {
  return result.status != compare::GateStatus::kNotComparable &&
         result.status != compare::GateStatus::kInfra;
}

std::string Evidence(double log_evidence, double error_rate) {
  return fmt::format("{:.3g} of {:.3g}", std::exp(log_evidence), 1.0 / error_rate);
}

std::string CountsText(const compare::OutcomeCounts& counts) {
  return fmt::format("{}: {} lost, {} gained, {} same", counts.n_pairs(), counts.n_lost,
                     counts.n_gained, counts.n_same);
}

// Of a test case; none for a passed one.
Json JUnitElement(compare::GateStatus status) {
  switch (status) {
    case compare::GateStatus::kPass:
      return nullptr;
    case compare::GateStatus::kFail:
      return "failure";
    case compare::GateStatus::kInconclusive:
      return "skipped";
    case compare::GateStatus::kNotComparable:
    case compare::GateStatus::kInfra:
      break;
  }
  return "error";
}

// What the forms show beside compare::ToJson.
void AddShown(const compare::GateResult& result, bool is_several, Json* task) {
  const compare::SequentialTestConfig& config = result.test.config();
  const bool has_verdict = HasVerdict(result);
  (*task)["case"] = is_several ? result.task : result.title;
  (*task)["element"] = JUnitElement(result.status);
  (*task)["has_verdict"] = has_verdict;
  (*task)["has_rows"] = has_verdict || !result.mismatches.empty();
  (*task)["counts"] = CountsText(result.test.counts());
  (*task)["looks"] = fmt::format(
      "{}, after {}", result.test.looks().size(),
      config.block_size == 1 ? "each seed" : fmt::format("every {} seeds", config.block_size));
  (*task)["graded"] = result.test.is_graded()
                          ? Json{{"title", compare::ScoreTitle(config.decided_by)},
                                 {"success_fail_evidence", nullptr}}
                          : Json();
  (*task)["last_evidence"] = Evidence(result.log_fail_evidence(), config.alpha);
  (*task)["fail_evidence"] = nullptr;
  if (result.test.looks().empty()) return;
  const compare::Look& look = result.test.looks().back();
  (*task)["fail_evidence"] = Evidence(look.log_fail_evidence, config.alpha);
  (*task)["pass_evidence"] = Evidence(look.log_pass_evidence, config.beta);
  if (!result.test.is_graded()) return;
  const compare::Look& by_success = result.test.last_by_success();
  (*task)["graded"]["success_fail_evidence"] = Evidence(by_success.log_fail_evidence, config.alpha);
  (*task)["graded"]["success_pass_evidence"] = Evidence(by_success.log_pass_evidence, config.beta);
}

Json ShownJson(const compare::GateReport& report) {
  const std::size_t n_tasks = report.tasks.size();
  const bool is_several = n_tasks > 1;
  Json shown = compare::ToJson(report);
  shown["is_several"] = is_several;
  shown["n_tasks"] = n_tasks;
  shown["n_cases"] = n_tasks + (is_several ? 1 : 0);
  shown["title"] = is_several ? fmt::format("{} tasks", n_tasks) : report.tasks[0].title;
  const bool is_graded =
      std::ranges::any_of(report.tasks, [](const auto& task) { return task.test.is_graded(); });
  shown["subject"] = is_graded ? "Score" : "Success rate";
  shown["evidence"] = Evidence(report.log_fail_evidence, report.config.alpha);
  shown["element"] = JUnitElement(report.status);
  for (std::size_t i = 0; i < n_tasks; ++i) {
    AddShown(report.tasks[i], is_several, &shown["tasks"][i]);
  }
  for (const char* element : {"failure", "error", "skipped"}) {
    int n = is_several && shown["element"] == element ? 1 : 0;
    for (const Json& task : shown["tasks"]) n += task["element"] == element ? 1 : 0;
    shown[fmt::format("n_{}", element)] = n;
  }
  return shown;
}

}  // namespace

std::string GateProgressLine(const compare::GateResult& result) {
  if (!HasVerdict(result) || result.test.looks().empty()) return "";
  const compare::Look& look = result.test.looks().back();
  const compare::SequentialTestConfig& config = result.test.config();
  return fmt::format(
      "{} after {}, of at most {} seeds; evidence of a drop {}, of no drop {}; drop "
      "{:+.3f} ({:+.3f} to {:+.3f})",
      compare::StatusName(result.status), CountsText(result.test.counts()), config.max_pairs,
      Evidence(look.log_fail_evidence, config.alpha), Evidence(look.log_pass_evidence, config.beta),
      result.drop.drop, result.drop.low, result.drop.high);
}

std::string GateText(const compare::GateReport& report) {
  return Render("gate.txt", ShownJson(report));
}

std::string GateJUnit(const compare::GateReport& report) {
  return Render("gate.xml", ShownJson(report));
}

std::string GateMarkdown(const compare::GateReport& report) {
  return Render("gate.md", ShownJson(report));
}

std::string GatePlanText(const std::vector<compare::GatePlan>& plans) {
  Json shown = compare::ToJson(plans);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const compare::SequentialTestConfig& config = plans[i].config;
    const bool is_graded = config.decided_by != compare::kBySuccess;
    Json& task = shown["tasks"][i];
    task["heading"] = plans.size() > 1 ? plans[i].task : "";
    task["alpha"] = 100.0 * config.alpha;
    task["max_pairs"] = config.max_pairs;
    task["margin"] = is_graded ? fmt::format("{:.3g} of the {}", config.margin,
                                             compare::ScoreTitle(config.decided_by))
                               : fmt::format("{:.3g} points", 100.0 * config.margin);
    task["decided_by"] = config.decided_by;
    for (std::size_t k = 0; k < plans[i].drops.size(); ++k) {
      Json& drop = task["drops"][k];
      drop["points"] = fmt::format("{:.3g}", 100.0 * plans[i].drops[k].drop);
      const std::string too_many = fmt::format("> {}", compare::kMaxPlannedPairs);
      for (const char* number : {"median", "mean", "quantile_90"}) {
        drop[number] =
            drop[number].is_null() ? too_many : fmt::format("{:.0f}", drop[number].get<double>());
      }
    }
  }
  return Render("gate_plan.txt", shown);
}

}  // namespace dp_bench::report
