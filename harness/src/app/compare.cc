// dp_bench compare: compares finished runs on their shared seeds. dp_bench diff: finds the first
// difference between two.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/verbs.h"
#include "compare/pairing.h"
#include "compare/run_comparison.h"
#include "compare/trace_difference.h"
#include "core/console.h"
#include "core/exit_code.h"
#include "core/output_file.h"
#include "core/temporary_folder.h"
#include "dp_bench/error.h"
#include "evaluate/evaluation.h"
#include "report/comparison_report.h"
#include "run/episode_trace.h"
#include "run/foreign_result.h"
#include "run/result_files.h"
#include "run/safetensors.h"

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

// Prints reasons against a comparison on standard error. True if there are any.
bool ReportMismatches(const std::vector<compare::Mismatch>& mismatches, const run::RunFolder& a,
                      const run::RunFolder& b) {
  for (const compare::Mismatch& mismatch : mismatches) {
    core::PrintStatus("not comparable: {} is {} in {}, {} in {}\n", mismatch.field, mismatch.a,
                      a.path.string(), mismatch.b, b.path.string());
  }
  return !mismatches.empty();
}

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

constexpr const char* kDiffDetails =
    R"(Pairs the episodes by split and seed, takes the first pair with different trace hashes, and prints
the first step and value that are not equal bit for bit. If a run has no recorded traces
(env_runner.record_traces), the episode is run again. Exit codes: 0 all equal, 1 a difference, 4 env
or task differ.

Examples:
  dp_bench diff runs/a runs/b
  dp_bench diff runs/a runs/b --episode 17)";

struct DiffVerbOptions {
  fs::path a;
  fs::path b;
  int episode = -1;  // index in A's seed list; -1: the first that differs
};

std::vector<compare::EpisodePair> PairAll(const run::RunFolder& a, const run::RunFolder& b) {
  std::vector<compare::EpisodePair> pairs;
  for (const char* split : {"train", "test"}) {
    const compare::PairedOutcomes outcomes = compare::PairBySeed(a.episodes, b.episodes, split);
    pairs.insert(pairs.end(), outcomes.pairs.begin(), outcomes.pairs.end());
  }
  return pairs;
}

// The recorded trace, or that of a replay.
ArrayMap TraceOf(const run::RunFolder& run, const run::EpisodeRecord& record,
                 const fs::path& scratch) {
  const fs::path file = run::TraceFile(record.split, record.seed);
  if (fs::exists(run.path / file)) return run::ReadSafetensors(run.path / file).tensors;
  const run::EpisodeRecord again = evaluate::RunRecordedEpisode(run, record.episode, {}, scratch);
  if (again.trace_hash != record.trace_hash) {
    core::PrintResult(
        "note: the replay of {} differs from the recording (another build or machine?); the "
        "following is about the replay\n",
        run.path.string());
  }
  return run::ReadSafetensors(scratch / file).tensors;
}

int Describe(const run::RunFolder& a, const run::RunFolder& b, const compare::EpisodePair& pair) {
  const core::TemporaryFolder scratch;
  const auto found = compare::FindFirstDifference(TraceOf(a, pair.a, scratch.path() / "a"),
                                                  TraceOf(b, pair.b, scratch.path() / "b"));
  core::PrintResult("episode {} ({} seed {}): ", pair.a.episode, pair.a.split, pair.seed());
  if (!found) {
    core::PrintResult("no step differs\n");
    return pair.a.trace_hash == pair.b.trace_hash ? 0 : 1;
  }
  core::PrintResult("first difference at step {}, {}\n  {}  {}\n  {}  {}\n", found->step,
                    found->field, found->a, a.path.string(), found->b, b.path.string());
  return 1;
}

int Diff(const DiffVerbOptions& options) {
  const run::RunFolder a = run::ReadRunFolder(options.a);
  const run::RunFolder b = run::ReadRunFolder(options.b);
  for (const run::RunFolder* run : {&a, &b}) run::RequireFinished(*run);
  if (ReportMismatches(compare::FindTaskMismatches(a, b), a, b)) return core::kExitNotComparable;
  const std::vector<compare::EpisodePair> pairs = PairAll(a, b);
  if (pairs.empty()) {
    throw Error(ErrorCode::kUsage,
                fmt::format("'{}' and '{}' share no seed", options.a.string(), options.b.string()));
  }
  const compare::EpisodePair* chosen = nullptr;
  int n_different = 0;
  for (const compare::EpisodePair& pair : pairs) {
    const bool is_different = pair.a.trace_hash != pair.b.trace_hash;
    n_different += is_different ? 1 : 0;
    const bool is_wanted =
        options.episode < 0 ? is_different && n_different == 1 : pair.a.episode == options.episode;
    if (is_wanted) chosen = &pair;
  }
  core::PrintResult("{} of {} episodes differ\n", n_different, pairs.size());
  if (chosen != nullptr) return Describe(a, b, *chosen);
  if (options.episode < 0) return 0;
  throw Error(ErrorCode::kUsage,
              fmt::format("'{}' has no episode {} on a seed that '{}' ran too", options.a.string(),
                          options.episode, options.b.string()));
}

}  // namespace

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

Verb AddDiff(CLI::App* app) {
  auto options = std::make_shared<DiffVerbOptions>();
  app->footer(kDiffDetails);
  AddFolder(app, "a", &options->a, "Run folder")->required();
  AddFolder(app, "b", &options->b, "Run folder")->required();
  app->add_option("--episode", options->episode,
                  "Index in the first run's seed list (default: the first that differs)");
  return [options] { return Diff(*options); };
}

}  // namespace dp_bench::app
