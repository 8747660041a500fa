// dp_bench gate: decides whether a candidate may replace the baseline, for continuous integration.
#include "compare/gate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/light/verbs.h"
#include "compare/gate_plan.h"
#include "compare/gate_report.h"
#include "compare/graded_score.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "core/output_file.h"
#include "core/shell.h"
#include "report/gate_output.h"
#include "run/foreign_result.h"
#include "run/result_files.h"
#include "run/run_checkpoint.h"
#include "run/run_contents.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGateDetails =
    R"(Compares the test episodes of a finished run with those of a baseline, seed by seed, and checks the
evidence after every 10 seeds (--look-every): FAIL if it shows a drop, PASS if it excludes a drop of --margin. The
baseline fixes what may drop: the success rate, or a score between 0 and 1. The error rates hold although it looks often. A candidate may also be a
checkpoint, or with --policy a policy without weights. It is rolled out until there is a verdict.
Results of other programs are read as by dp_bench compare.

Examples:
  dp_bench gate --baseline baseline.json --update-baseline --candidate runs/main
  dp_bench gate --baseline baseline.json --update-baseline --decide-by time_to_success --candidate runs/main
  dp_bench gate --baseline baseline.json --candidate runs/branch --junit gate.xml
  dp_bench gate --baseline baseline.json --policy remote --env pusht policy.params.url=ws://127.0.0.1:8000
  dp_bench gate --baseline push.json lift.json --candidate runs/push runs/lift --json gate.json
  dp_bench gate --continue gate.json --baseline push.json lift.json --candidate runs/push_400 runs/lift_400
  dp_bench gate --baseline baseline.json --plan                    # how many seeds show a drop of 3 to 20 points?
  dp_bench gate --baseline baseline.json --plan 0.05 --candidate runs/branch

Several tasks pass if each passes. --continue continues an INCONCLUSIVE test with more seeds, as if it
had not stopped; the seeds so far must come first.

Exit codes: 0 PASS, 1 FAIL, 2 usage, 3 INCONCLUSIVE, 4 NOT COMPARABLE, 5 too many episodes broke,
6 data, 75 interrupted.)";

struct GateVerbOptions {
  std::vector<fs::path> baselines;
  std::vector<fs::path> candidates;
  compare::AskedSettings asked;
  bool is_nightly = false;
  bool has_same_seeds = false;
  bool updates_baseline = false;
  bool is_plan = false;
  int look_every = compare::SequentialTestConfig().block_size;
  compare::GatePlanQuestion plan;
  std::string decided_by = std::string(compare::kBySuccess);
  fs::path continued;  // a file from --json
  fs::path json, junit, markdown;
  std::shared_ptr<GateRollouts> rollouts;  // null: no candidate is a checkpoint
};

// Instead of a finished run. The candidate of a policy without weights has no path.
bool IsRolledOut(const fs::path& candidate) {
  return candidate.empty() || run::IsCheckpointFolder(candidate);
}

void WriteIfAsked(const fs::path& file, const std::string& text) {
  if (!file.empty()) core::WriteOutput(file, text);
}

// A report without a verdict must not overwrite the state that the gate should continue.
void WriteJson(const GateVerbOptions& options, const compare::GateReport& report) {
  std::error_code not_both_exist;
  const bool is_same = fs::equivalent(options.json, options.continued, not_both_exist);
  if (is_same && (report.status == compare::GateStatus::kNotComparable ||
                  report.status == compare::GateStatus::kInfra)) {
    core::PrintStatus("{} keeps the state of the earlier gate, which can still be continued\n",
                      options.json.string());
    return;
  }
  WriteIfAsked(options.json, ToJson(report).dump(2) + "\n");
}

int UpdateBaselines(const GateVerbOptions& options) {
  if (options.baselines.size() != options.candidates.size()) {
    throw UsageError(
        "--update-baseline writes one --baseline per --candidate, in order; found {} and {}",
        options.baselines.size(), options.candidates.size());
  }
  std::vector<run::ResultFile> files;
  for (const fs::path& file : options.baselines) {
    files.push_back({"--baseline", file, run::kBaselineFile});
  }
  run::RequireResultFiles(files);
  // make all texts before replacing the first file
  std::vector<std::string> texts;
  std::vector<run::RunFolder> baselines;
  for (const fs::path& candidate : options.candidates) {
    if (run::IsCheckpointFolder(candidate)) {
      throw UsageError(
          "--update-baseline needs finished evaluations, but '{}' is a checkpoint: "
          "evaluate it with dp_bench eval --checkpoint {} --output FOLDER",
          candidate.string(), core::ShellWord(candidate.string()));
    }
    const std::string text = compare::BaselineJson(run::ReadResult(candidate), options.decided_by);
    baselines.push_back(compare::ParseBaseline(text, candidate));
    texts.push_back(text);
  }
  for (std::size_t i = 0; i < options.baselines.size(); ++i) {
    core::WriteOutput(options.baselines[i], texts[i]);
    const run::SplitSummary summary = run::Summarize(baselines[i].episodes, "test");
    core::PrintResult("{}: {} is the baseline now, {} episodes\n", options.baselines[i].string(),
                      options.candidates[i].string(), summary.n_episodes);
    if (summary.n_failed > 0) {
      core::PrintStatus("warning: {} of them broke and count as not successful\n",
                        summary.n_failed);
    }
  }
  return 0;
}

std::vector<compare::TaskPair> ReadPairs(const GateVerbOptions& options) {
  std::vector<run::RunFolder> baselines;
  std::vector<run::RunFolder> candidates;
  for (const fs::path& file : options.baselines) baselines.push_back(compare::ReadBaseline(file));
  for (const fs::path& folder : options.candidates) {
    candidates.push_back(run::ReadResult(folder));
    if (!run::IsCheckpointFolder(folder)) run::RequireFinished(candidates.back());
  }
  if (candidates.empty()) candidates.emplace_back();  // the policy
  if (options.has_same_seeds) {
    compare::AssumeSameSeeds(&baselines);
    compare::AssumeSameSeeds(&candidates);
  }
  return compare::MatchTasks(std::move(baselines), std::move(candidates));
}

compare::SequentialTestConfig NewConfig(const GateVerbOptions& options) {
  compare::SequentialTestConfig config = options.is_nightly
                                             ? compare::SequentialTestConfig::Nightly()
                                             : compare::SequentialTestConfig::PullRequest();
  config.margin = options.asked.margin.value_or(config.margin);
  config.alpha = options.asked.alpha.value_or(config.alpha);
  config.beta = options.asked.beta.value_or(config.beta);
  config.max_pairs = options.asked.max_pairs.value_or(config.max_pairs);
  config.block_size = options.look_every;
  return config;
}

// One of several candidates gets a folder below --output.
fs::path OutputFor(const GateVerbOptions& options, std::size_t index) {
  const fs::path& output = options.rollouts->output;
  return output.empty() || options.candidates.size() <= 1
             ? output
             : output / fmt::format("task_{}", index + 1);
}

// Throws Error{kUsage} for options of rollouts if all candidates are finished evaluations.
void RequireRollouts(const CLI::App& verb, const GateVerbOptions& options) {
  if (options.rollouts == nullptr || options.candidates.empty() ||
      std::ranges::any_of(options.candidates, run::IsCheckpointFolder)) {
    return;
  }
  for (const char* const name : {"--output", "--overwrite", "--weights", "--device"}) {
    if (verb.get_option(name)->empty()) continue;
    throw UsageError("{} is for rollouts of a checkpoint, but no --candidate is a checkpoint",
                     name);
  }
}

// Checks all tasks before the first rollouts.
void RequireFreeOutputs(const GateVerbOptions& options,
                        const std::vector<compare::TaskPair>& pairs) {
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (!IsRolledOut(pairs[i].candidate.path)) continue;
    const fs::path output = OutputFor(options, i);
    if (output.empty()) continue;
    run::RequireNoRun(output, /*has_overwrite=*/true, options.rollouts->overwrites);
  }
}

// The gate of one task. `earlier` is null for a new gate.
std::optional<compare::GateResult> GateTask(const GateVerbOptions& options, std::size_t index,
                                            const compare::TaskPair& pair,
                                            const compare::SequentialTestConfig& config,
                                            const compare::GateProgress* earlier) {
  const auto judge = [&](const run::RunFolder& candidate) {
    compare::GateResult result = compare::RunGate(pair.baseline, candidate, config, earlier);
    result.task = pair.task;
    return result;
  };
  if (!IsRolledOut(pair.candidate.path)) return judge(pair.candidate);
  const int n_earlier = earlier != nullptr ? earlier->n_pairs : 0;
  return options.rollouts->run(pair.candidate.path, OutputFor(options, index), pair.baseline,
                               {.n_first = std::max(8, n_earlier),
                                .max_episodes = config.max_pairs,
                                .stops_at_signature = !options.is_nightly,
                                .judge = judge});
}

void RequireCandidates(const GateVerbOptions& options) {
  const bool has_policy = options.rollouts != nullptr && !options.rollouts->policy.empty();
  if (options.is_plan) {
    if (!has_policy && std::ranges::none_of(options.candidates, run::IsCheckpointFolder)) return;
    throw UsageError(
        "--plan runs no episodes; give the run folder of a finished evaluation as --candidate, or "
        "none");
  }
  if (!has_policy && options.candidates.empty()) {
    throw UsageError("give a --candidate, or --policy to roll out a policy without weights");
  }
  if (has_policy && (options.updates_baseline || !options.candidates.empty())) {
    throw UsageError(
        "--policy is a candidate that is rolled out, so --candidate and --update-baseline cannot "
        "be given with it");
  }
}

// Answers --plan.
int Plan(const GateVerbOptions& options) {
  run::RequireResultFiles({{"--json", options.json, run::kGatePlanJson}});
  std::vector<compare::TaskPair> pairs;
  if (options.candidates.empty()) {
    for (const fs::path& file : options.baselines) {
      pairs.push_back({.baseline = compare::ReadBaseline(file)});
      pairs.back().task = run::TaskTitle(pairs.back().baseline);
    }
  } else {
    pairs = ReadPairs(options);
  }
  const compare::SequentialTestConfig config =
      compare::ConfigOfTask(NewConfig(options), pairs.size());
  std::vector<compare::GatePlan> plans;
  for (const compare::TaskPair& pair : pairs) {
    const bool has_candidate = !options.candidates.empty();
    if (has_candidate) {
      const compare::GateResult result = compare::RunGate(pair.baseline, pair.candidate, config);
      if (result.status == compare::GateStatus::kNotComparable ||
          result.status == compare::GateStatus::kInfra) {
        core::PrintStatus("{}: {}\n", compare::StatusName(result.status), result.reason);
        return compare::ExitCodeOf(result.status);
      }
    }
    plans.push_back(compare::PlanGate(pair.baseline, has_candidate ? &pair.candidate : nullptr,
                                      config, options.plan));
    plans.back().task = pair.task;
  }
  core::PrintResult("{}", report::GatePlanText(plans));
  WriteIfAsked(options.json, compare::ToJson(plans).dump(2) + "\n");
  return 0;
}

int Gate(const CLI::App& verb, const GateVerbOptions& options) {
  RequireCandidates(options);
  if (options.updates_baseline) {
    RequireUsed(verb, "--update-baseline",
                {"--update-baseline", "--baseline", "--candidate", "--decide-by"});
    return UpdateBaselines(options);
  }
  if (options.is_plan) {
    RequireUsed(verb, "--plan",
                {"--plan", "--baseline", "--candidate", "--correlation", "--json", "--same-seeds",
                 "--nightly", "--margin", "--alpha", "--beta", "--max-pairs", "--look-every"});
    return Plan(options);
  }
  run::RequireResultFiles({{"--json", options.json, run::kGateJson},
                           {"--junit", options.junit, run::kGateJUnit},
                           {"--markdown", options.markdown, run::kGateMarkdown}});
  RequireRollouts(verb, options);
  const std::vector<compare::TaskPair> pairs = ReadPairs(options);
  RequireFreeOutputs(options, pairs);
  compare::SequentialTestConfig config = NewConfig(options);
  std::map<std::string, compare::GateProgress> earlier;  // by task
  if (!options.continued.empty()) {
    compare::StoppedGate stopped = compare::ReadStoppedGate(options.continued);
    compare::AskedSettings asked = options.asked;
    if (options.is_nightly && !asked.max_pairs) asked.max_pairs = config.max_pairs;
    const std::vector<compare::Mismatch> changes =
        compare::FindChangedSettings(stopped, asked, pairs);
    for (const compare::Mismatch& change : changes) {
      core::PrintStatus("NOT COMPARABLE: {} is {} in {}, now {}\n", change.field, change.a,
                        options.continued.string(), change.b);
    }
    if (!changes.empty()) return core::kExitNotComparable;
    config = stopped.config;
    config.max_pairs = asked.max_pairs.value_or(config.max_pairs);
    earlier = std::move(stopped.tasks);
  }
  std::vector<compare::GateResult> results;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    std::optional<compare::GateResult> result =
        GateTask(options, i, pairs[i], compare::ConfigOfTask(config, pairs.size()),
                 earlier.empty() ? nullptr : &earlier.at(pairs[i].task));
    if (!result) return core::kExitInterrupted;
    results.push_back(std::move(*result));
  }
  const compare::GateReport report = compare::JudgeTasks(config, std::move(results));
  core::PrintResult("{}", report::GateText(report));
  WriteJson(options, report);
  WriteIfAsked(options.junit, report::GateJUnit(report));
  WriteIfAsked(options.markdown, report::GateMarkdown(report));
  return compare::ExitCodeOf(report.status);
}

// For CLI::Option::check.
std::string RefuseCheckpoint(const std::string& path) {
  return run::IsCheckpointFolder(path) ? path + " is a checkpoint" : "";
}

}  // namespace

Verb AddGate(CLI::App* app, std::shared_ptr<GateRollouts> rollouts) {
  auto options = std::make_shared<GateVerbOptions>();
  options->rollouts = std::move(rollouts);
  app->footer(kGateDetails);
  app->add_option("--baseline", options->baselines,
                  "JSON files that --update-baseline wrote, one per task")
      ->required();
  CLI::Option* candidates =
      app->add_option("--candidate", options->candidates,
                      "Run folders of evaluations, or checkpoints to roll out, one per task")
          ->check(CLI::ExistingPath);
  if (options->rollouts == nullptr) candidates->check(&RefuseCheckpoint);
  CLI::Option* update =
      app->add_flag("--update-baseline", options->updates_baseline,
                    "Write the candidates' outcomes to --baseline instead of testing them");
  app->add_option(
         "--decide-by", options->decided_by,
         "With --update-baseline: what gates against this baseline compare, success, score "
         "or time_to_success (default: success)")
      ->check(CLI::IsMember(compare::kScores))
      ->needs(update);
  CLI::Option* continued =
      app->add_option("--continue", options->continued,
                      "Continue an INCONCLUSIVE gate from the file that it wrote with --json")
          ->check(CLI::ExistingFile);
  app->add_flag("--same-seeds", options->has_same_seeds,
                "Pair results of different programs by their seeds; LeRobot's, which have none, by "
                "their order");
  app->add_flag("--nightly", options->is_nightly,
                "--margin 0.05 --max-pairs 1500; with --continue --max-pairs 1500 alone");
  app->add_option("--margin", options->asked.margin, "The drop that PASS excludes (default: 0.1)");
  app->add_option("--alpha", options->asked.alpha,
                  "Largest probability of a false FAIL, over all tasks (default: 0.01)");
  app->add_option("--beta", options->asked.beta,
                  "Largest probability of a false PASS (default: 0.05)");
  app->add_option("--max-pairs", options->asked.max_pairs,
                  "INCONCLUSIVE after this many seeds (default: 400)");
  AddNumber(
      app, "--look-every", &options->look_every, 1, 1 << 24,
      "Seeds between two looks at the evidence; 1 if each episode is expensive, as on a robot")
      ->excludes(continued);
  app->add_option("--json", options->json, "Write the result, with the tests' state, to this file");
  app->add_option("--junit", options->junit, "Write JUnit XML to this file");
  app->add_option("--markdown", options->markdown, "Write a pull-request comment to this file");
  CLI::Option* plan =
      AddList(app, "--plan", &options->plan.drops,
              "Test nothing; say how many seeds show these drops of the success rate, from the "
              "episodes of the baseline, with a --candidate from its pairs")
          ->expected(0, 100)
          ->default_str(fmt::format("{}", fmt::join(compare::kUsualDrops, ",")))
          ->each([options](const std::string&) { options->is_plan = true; });
  AddNumber(app, "--correlation", &options->plan.correlation, 0.0, 0.999,
            "With --plan and no --candidate: between the old and the new outcome of a seed")
      ->needs(plan)
      ->excludes(candidates);
  return [app, options] { return Gate(*app, *options); };
}

}  // namespace dp_bench::app
