#include "report/console_table.h"

#include <fmt/format.h>

#include <string_view>

#include "compare/success_rate.h"
#include "run/episode_record.h"

namespace dp_bench::report {
namespace {

// A reason may have several lines: layers add context.
std::string Indented(const std::string& text) {
  std::string indented;
  for (const char c : text) {
    indented += c;
    if (c == '\n') indented += "    ";
  }
  return indented;
}

std::string DifferenceText(const run::ArmDifference& effect) {
  return fmt::format("{:+.3f} ({:+.3f} to {:+.3f})", effect.difference, effect.low, effect.high);
}

std::string ArmRow(const std::string& name, const run::ArmResult& result,
                   const std::string& rate_effect, const std::string& score_effect,
                   const std::string& changed) {
  return fmt::format("{:<14} {:>6.3f} {:>9}  {:<29}{:>6.3f}  {:<29}{:>8}\n", name,
                     result.success_rate, fmt::format("{}/{}", result.n_success, result.n_episodes),
                     rate_effect, result.mean_score, score_effect, changed);
}

}  // namespace

std::string ResultTable(const run::RunResult& result) {
  std::string table =
      fmt::format("{:<7} {:>12}  {:<17} {:>9} {:>11} {:>8}\n", "split", "success rate",
                  "95 % interval", "episodes", "mean score", "failed");
  for (const std::string_view split : {"train", "test"}) {
    const run::SplitSummary summary = run::Summarize(result.records, split);
    if (summary.n_episodes == 0) continue;
    const compare::RateInterval rate =
        compare::WilsonInterval(summary.n_success, summary.n_episodes);
    table += fmt::format(
        "{:<7} {:>10.1f} %  {:<17} {:>9} {:>11.3f} {:>8}\n", split, 100.0 * rate.rate,
        fmt::format("{:.1f} to {:.1f} %", 100.0 * rate.low, 100.0 * rate.high),
        fmt::format("{}/{}", rate.n_success, rate.n), summary.mean_score, summary.n_failed);
  }
  for (const std::string_view split : {"train", "test"}) {
    const run::SplitSummary summary = run::Summarize(result.records, split);
    if (summary.n_stale_steps == 0) continue;
    table += fmt::format("{}: {} of {} steps were executed while the policy was planning\n", split,
                         summary.n_stale_steps, summary.n_steps);
  }
  for (const run::EpisodeRecord& record : result.records) {
    if (!record.failure_reason) continue;
    table += fmt::format("failed: {} seed {} after {} steps: {}\n", record.split, record.seed,
                         record.n_steps, Indented(*record.failure_reason));
  }
  return table;
}

std::string EffectsTable(const run::PerturbationEffects& effects) {
  std::string table =
      fmt::format("{:<14} {:>16}  {:<29}{:>6}  {:<29}{:>8}\n", "perturbation", "success rate",
                  "difference (95 % interval)", "score", "difference (95 % interval)", "changed");
  table += ArmRow("none", effects.control, "", "", "");
  for (const run::PerturbedArm& arm : effects.arms) {
    table += ArmRow(arm.name, arm.result, DifferenceText(arm.success_rate),
                    DifferenceText(arm.score), fmt::format("{}/{}", arm.n_changed, arm.n_pairs));
  }
  for (const run::PerturbedArm& arm : effects.arms) {
    if (!arm.note.empty()) table += "note: " + arm.note + "\n";
  }
  return table;
}

}  // namespace dp_bench::report
