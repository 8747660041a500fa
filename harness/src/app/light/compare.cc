// dp_bench compare: compares finished runs on their shared seeds.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/light/verbs.h"
#include "compare/pairing.h"
#include "compare/run_comparison.h"
#include "core/console.h"
#include "core/exit_code.h"
#include "core/output_file.h"
#include "report/comparison_report.h"
#include "run/foreign_result.h"
#include "run/result_files.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCompareDetails =
    R"(Each is a run, an evaluation, or a result of LeRobot (eval_info.json), diffusion_policy
(eval_log.json) or vla-eval, or a CSV with the columns seed and success. Each is compared with the first on the test seeds that both
ran: differences of success rate and score with 95 % intervals, McNemar's test, and the seeds that
only one of the two solved. With several candidates, p-values are also given with Holm's correction,
runs that do not differ significantly get a letter in common, and the luck of the best run is
estimated. Results whose seeds are not known to be the same are compared unpaired, with Fisher's test.
Exit code 4: env, task or seeds differ.

Examples:
  dp_bench compare runs/baseline runs/candidate --html comparison.html
  dp_bench compare runs/a runs/b runs/c --json comparison.json
  dp_bench compare runs/mine lerobot/eval_info.json)";

struct CompareVerbOptions {
  std::vector<fs::path> folders;
  fs::path json;
  fs::path html;
  compare::CompareOptions compare;
  bool has_same_seeds = false;
  bool is_forced = false;
};

bool AreComparable(const std::vector<run::RunFolder>& folders) {
  bool found = false;
  for (std::size_t i = 1; i < folders.size(); ++i) {
    const auto mismatches = compare::FindMismatches(folders[0], folders[i]);
    found = ReportMismatches(mismatches, folders[0], folders[i]) || found;
  }
  if (found) core::PrintStatus("--force compares anyway, on the seeds that both ran\n");
  return !found;
}

int Compare(const CompareVerbOptions& options) {
  run::RequireResultFiles({{"--json", options.json, run::kComparisonJson},
                           {"--html", options.html, run::kComparisonPage}});
  std::vector<run::RunFolder> folders;
  for (const fs::path& folder : options.folders) {
    folders.push_back(compare::RequireComparable(run::ReadResult(folder)));
  }
  if (options.has_same_seeds) compare::AssumeSameSeeds(&folders);
  if (!options.is_forced && !AreComparable(folders)) return core::kExitNotComparable;
  const compare::RunComparison comparison =
      compare::CompareRuns(std::move(folders), options.compare);
  core::PrintResult("{}", report::ComparisonText(comparison));
  if (!options.json.empty()) {
    core::WriteOutput(options.json, std::string_view(report::ToJson(comparison).dump(2) + "\n"));
  }
  if (!options.html.empty()) {
    report::WriteComparisonReport(comparison, options.html);
    core::PrintResult("report: {}\n", options.html.string());
  }
  return 0;
}

}  // namespace

bool ReportMismatches(const std::vector<compare::Mismatch>& mismatches, const run::RunFolder& a,
                      const run::RunFolder& b) {
  for (const compare::Mismatch& mismatch : mismatches) {
    core::PrintStatus("not comparable: {} is {} in {}, {} in {}\n", mismatch.field, mismatch.a,
                      a.path.string(), mismatch.b, b.path.string());
  }
  return !mismatches.empty();
}

Verb AddCompare(CLI::App* app) {
  auto options = std::make_shared<CompareVerbOptions>();
  app->footer(kCompareDetails);
  app->add_option("runs", options->folders,
                  "Run folders or results; the others are compared with the first")
      ->required()
      ->expected(2, static_cast<int>(compare::kMaxComparedRuns))
      ->check(CLI::ExistingPath);
  app->add_option("--json", options->json, "Write the comparison to this file");
  app->add_option("--html", options->html,
                  "Write a page with the videos of seeds that only one run solved to this file");
  app->add_option(
         "--interval", options->compare.rate_method,
         "Interval of each success rate: wilson, or clopper-pearson for claims (\"at least\")")
      ->transform(CLI::CheckedTransformer(std::map<std::string, compare::RateMethod>{
          {"wilson", compare::RateMethod::kWilson},
          {"clopper-pearson", compare::RateMethod::kClopperPearson}}))
      ->option_text("NAME");
  AddNumber(app, "--difference", &options->compare.difference, 0.001, 1.0,
            "Difference of success rates for the estimate of the seeds that it takes to detect it");
  app->add_flag("--same-seeds", options->has_same_seeds,
                "Pair results of different programs by their seeds; LeRobot's, which have none, by "
                "their order");
  app->add_flag("--force", options->is_forced, "Compare even if env, task or seeds differ");
  return [options] { return Compare(*options); };
}

}  // namespace dp_bench::app
