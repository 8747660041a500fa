// dp_bench compare: compares finished runs on their shared seeds.

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/light/verbs.h"
#include "compare/allocation.h"
#include "compare/delay_curves.h"
#include "compare/pairing.h"
#include "compare/published_rate.h"
#include "compare/real_rate.h"
#include "compare/run_comparison.h"
#include "core/atomic_file.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "core/output_file.h"
#include "report/compare_answers.h"
#include "report/comparison_report.h"
#include "report/delay_page.h"
#include "run/foreign_result.h"
#include "run/result_files.h"
#include "run/run_files.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxGridBytes = std::size_t{64} << 20;

constexpr const char* kCompareDetails =
    R"(Each is a run, an evaluation, or a result of LeRobot (eval_info.json), diffusion_policy
(eval_log.json) or vla-eval, or a CSV with the columns seed and success. Each is compared with the first on the test seeds that both
ran: differences of success rate and score with 95 % intervals, McNemar's test, and the seeds that
only one of the two solved. With several candidates, p-values are also given with Holm's correction.
Three runs or more get letters and ranks: runs with a letter in common are not shown to differ. Results whose seeds are not known to be the same are compared unpaired, with Fisher's test.
Exit code 4: env or task differ, or no seed is shared.

Examples:
  dp_bench compare runs/baseline runs/candidate --html comparison.html
  dp_bench compare runs/a runs/b runs/c --json comparison.json
  dp_bench compare runs/mine lerobot/eval_info.json
  dp_bench compare runs/mine --published 403/500           # is that number credible, given mine?
  dp_bench compare runs/simulated --real real.csv          # the rate on the robot
  dp_bench compare runs/grid_a runs/grid_b --html delays.html    # two grids of delays: one page
  dp_bench compare runs/suites/mt50/suite.json --allocate 2000   # where more episodes tell most)";

struct CompareVerbOptions {
  std::vector<fs::path> folders;
  fs::path json;
  fs::path html;
  compare::CompareOptions compare;
  bool has_same_seeds = false;
  bool is_forced = false;
  std::string published;
  fs::path real;
  int n_allocated = 0;

  int n_questions() const {
    return (published.empty() ? 0 : 1) + (real.empty() ? 0 : 1) + (n_allocated > 0 ? 1 : 0);
  }
};

bool AreComparable(const std::vector<run::RunFolder>& folders,
                   decltype(&compare::FindMismatches) find = &compare::FindMismatches) {
  bool found = false;
  for (std::size_t i = 1; i < folders.size(); ++i) {
    found = ReportMismatches(find(folders[0], folders[i]), folders[0], folders[i]) || found;
  }
  if (found)
    core::PrintStatus("--force compares other envs or tasks, on the seeds that both ran\n");
  return !found;
}

std::vector<run::RunFolder> ReadRuns(const std::vector<fs::path>& folders) {
  std::vector<run::RunFolder> runs;
  for (const fs::path& folder : folders) {
    runs.push_back(compare::RequireComparable(run::ReadResult(folder)));
  }
  return runs;
}

void WriteJson(const CompareVerbOptions& options, const nlohmann::json& json) {
  if (!options.json.empty()) core::WriteOutput(options.json, json.dump(2) + "\n");
}

// Throws Error{kUsage} if two runs have an episode in common, which would count twice.
void RequireDistinctEpisodes(const std::vector<run::RunFolder>& runs) {
  std::set<fs::path> paths;  // results of other programs have no traces
  for (const run::RunFolder& run : runs) {
    if (paths.insert(fs::weakly_canonical(run.path)).second) continue;
    throw UsageError("'{}' is named twice; give each episode once", run.path.string());
  }
  std::map<std::pair<std::uint64_t, std::string>, const run::RunFolder*> known;
  for (const run::RunFolder& run : runs) {
    for (const run::EpisodeRecord& record : run.episodes) {
      if (record.split != "test" || record.trace_hash.empty()) continue;
      const auto [found, is_new] = known.try_emplace({record.seed, record.trace_hash}, &run);
      if (is_new) continue;
      throw UsageError("{} and {} have the same episode of test seed {}; give each episode once",
                       found->second->path.string(), run.path.string(), record.seed);
    }
  }
}

// None if the runs are of different tasks.
std::optional<nlohmann::json> AnswerPublished(const CompareVerbOptions& options) {
  const compare::PublishedRate published = compare::ParsePublishedRate(options.published);
  const std::vector<run::RunFolder> runs = ReadRuns(options.folders);
  if (!options.is_forced && !AreComparable(runs, &compare::FindTaskMismatches)) return std::nullopt;
  RequireDistinctEpisodes(runs);
  int n_success = 0;
  int n = 0;
  for (const run::RunFolder& run : runs) {
    const run::SplitSummary test = run::Summarize(run.episodes, "test");
    n_success += test.n_success;
    n += test.n_episodes;
  }
  const compare::PublishedCheck check = compare::CheckPublished(published, n_success, n);
  core::PrintResult("{}", report::PublishedText(check, options.folders.size()));
  return ToJson(check);
}

// None if the runs are of different tasks or share no test seed.
std::optional<nlohmann::json> AnswerReal(const CompareVerbOptions& options) {
  if (options.folders.size() != 1) {
    throw UsageError("--real needs one run, the simulated one; found {}", options.folders.size());
  }
  const run::RunFolder simulated = ReadRuns(options.folders).front();
  const run::RunFolder real = compare::RequireComparable(run::ReadResult(options.real));
  if (const std::string why = compare::WhyOtherTasks(simulated, real); !why.empty()) {
    core::PrintStatus("not comparable: {}; give results of the same tasks\n", why);
    return std::nullopt;
  }
  const std::optional<compare::RealRate> rate = compare::BoundRealRate(simulated, real);
  if (!rate) {
    core::PrintStatus(
        "not comparable: '{}' and '{}' share no test seed; give a real rollout the seed of the "
        "simulated one with the same start\n",
        simulated.path.string(), real.path.string());
    return std::nullopt;
  }
  core::PrintResult("{}", report::RealRateText(*rate));
  nlohmann::json json = *rate;
  json["format"] = "dp_bench.compare.real.v1";
  return json;
}

// A suite.json, or runs of one task. None if they are of different tasks or env versions.
std::optional<nlohmann::json> AnswerAllocation(const CompareVerbOptions& options) {
  const bool is_suite =
      options.folders.size() == 1 && options.folders.front().extension() == ".json";
  std::vector<run::RunFolder> runs;
  if (!is_suite) runs = ReadRuns(options.folders);
  if (!options.is_forced && !AreComparable(runs)) return std::nullopt;
  compare::SuiteTable table =
      is_suite ? compare::ReadSuiteTable(options.folders.front()) : compare::TableOf(runs);
  const std::vector<std::string> faults = compare::VersionFaults(table);
  for (const std::string& fault : faults) core::PrintStatus("not comparable: {}\n", fault);
  if (!faults.empty()) return std::nullopt;
  for (compare::SuiteCell& cell : table.cells) {
    if (is_suite) cell.folder = (options.folders.front().parent_path() / cell.folder).string();
  }
  const compare::SuiteRanking ranking = compare::RankingOf(table);
  if (ranking.places.empty() || !ranking.places.front().task.empty()) {  // over all tasks first
    throw DataError(
        "{}: expected two policies or more with all cells; finish the suite, or give several runs",
        options.folders.front().string());
  }
  const auto budgets = compare::Allocate(table, ranking, options.n_allocated);
  nlohmann::json json = compare::ToJson(table, budgets);
  core::PrintResult("{}", report::AllocationText(json, table, ranking));
  return json;
}

bool IsDelayGrid(const fs::path& path) { return fs::is_regular_file(path / run::kDelaysFile); }

// Grids are named by their folders, by the whole paths if these have equal names.
std::vector<std::string> NamesOf(const std::vector<fs::path>& folders) {
  std::vector<std::string> names;
  for (const fs::path& folder : folders) names.push_back(core::NameOf(folder).string());
  if (std::set(names.begin(), names.end()).size() == names.size()) return names;
  names.clear();
  for (const fs::path& folder : folders) names.push_back(folder.string());
  return names;
}

// Whether two grids have the same env, task and seeds, by the first place that both have.
bool AreGridsComparable(const compare::DelayGridFile& a, const compare::DelayGridFile& b) {
  for (const compare::DelayPoint& point : a.points) {
    for (const compare::DelayPoint& other : b.points) {
      if (PlaceOf(point) != PlaceOf(other)) continue;
      return AreComparable(ReadRuns({point.folder, other.folder}));
    }
  }
  core::PrintStatus(
      "not comparable: '{}' and '{}' have no delay with the same execute in common; evaluate one\n",
      a.points.front().policy, b.points.front().policy);
  return false;
}

// The grids of `eval --delays` in these folders.
std::vector<compare::DelayGridFile> ReadGrids(const std::vector<fs::path>& folders) {
  const std::vector<std::string> names = NamesOf(folders);
  std::vector<compare::DelayGridFile> grids;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const fs::path file = folders[i] / run::kDelaysFile;
    grids.push_back(compare::ReadDelayGrid(core::ReadTextFile(file, kMaxGridBytes),
                                           fs::absolute(folders[i]), file.string()));
    if (grids[i].points.empty()) throw DataError("{}: the grid has no point", file.string());
    for (compare::DelayPoint& point : grids[i].points) point.policy = names[i];
  }
  return grids;
}

int CompareGrids(const CLI::App& verb, const CompareVerbOptions& options) {
  RequireUsed(verb, "of grids", {"runs", "--json", "--html", "--force"});
  run::RequireResultFiles({{"--json", options.json, run::kCompareAnswer},
                           {"--html", options.html, run::kComparisonPage}});
  std::vector<compare::DelayPoint> points;
  bool is_quasi_static = false;
  const std::vector<compare::DelayGridFile> grids = ReadGrids(options.folders);
  for (const compare::DelayGridFile& grid : grids) {
    if (!options.is_forced && !AreGridsComparable(grids.front(), grid)) {
      return core::kExitNotComparable;
    }
    points.insert(points.end(), grid.points.begin(), grid.points.end());
    is_quasi_static = is_quasi_static || grid.is_quasi_static;
  }
  // the page has links to the evaluations
  const fs::path base =
      options.html.empty() ? fs::current_path() : fs::absolute(options.html).parent_path();
  const nlohmann::json rows = compare::CompareDelays(points, base);
  core::PrintResult("{}", report::DelayTable(rows));
  WriteJson(options, {{"format", "dp_bench.compare.delays.v1"}, {"rows", rows}});
  if (!options.html.empty()) {
    report::WriteDelayPage(rows, is_quasi_static, "dp_bench compare", options.html);
    core::PrintResult("report: {}\n", options.html.string());
  }
  return 0;
}

// What --published, --real and --allocate ask; one of them.
int Answer(const CLI::App& verb, const CompareVerbOptions& options) {
  if (options.n_questions() > 1) {
    throw UsageError("--published, --real and --allocate answer different questions; give one");
  }
  const char* const question = !options.published.empty() ? "--published"
                               : !options.real.empty()    ? "--real"
                                                          : "--allocate";
  std::vector<std::string_view> used = {"runs", question, "--json"};
  if (options.real.empty()) used.emplace_back("--force");
  RequireUsed(verb, question, used);
  run::RequireResultFiles({{"--json", options.json, run::kCompareAnswer}});
  const std::optional<nlohmann::json> json = !options.published.empty() ? AnswerPublished(options)
                                             : !options.real.empty()    ? AnswerReal(options)
                                                                        : AnswerAllocation(options);
  if (!json) return core::kExitNotComparable;
  WriteJson(options, *json);
  return 0;
}

int Compare(const CLI::App& verb, const CompareVerbOptions& options) {
  if (options.folders.size() > compare::kMaxComparedRuns) {
    throw UsageError("expected at most {} runs, found {}", compare::kMaxComparedRuns,
                     options.folders.size());
  }
  if (options.n_questions() > 0) return Answer(verb, options);
  if (options.folders.size() < 2) {
    throw UsageError("expected two runs or more, or one with --published, --real or --allocate");
  }
  const auto n_grids = std::ranges::count_if(options.folders, &IsDelayGrid);
  if (n_grids == std::ssize(options.folders)) return CompareGrids(verb, options);
  if (n_grids > 0) {
    throw UsageError("a folder with {} is a grid of evaluations; expected only such, or none",
                     run::kDelaysFile);
  }
  run::RequireResultFiles({{"--json", options.json, run::kComparisonJson},
                           {"--html", options.html, run::kComparisonPage}});
  std::vector<run::RunFolder> folders = ReadRuns(options.folders);
  if (options.has_same_seeds) compare::AssumeSameSeeds(&folders);
  if (!options.is_forced && !AreComparable(folders)) return core::kExitNotComparable;
  const compare::RunComparison comparison =
      compare::CompareRuns(std::move(folders), options.compare);
  core::PrintResult("{}", report::ComparisonText(comparison));
  if (!options.json.empty()) WriteJson(options, report::ToJson(comparison));
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
      ->expected(-1)
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
  app->add_option(
      "--published", options->published,
      "Is this published success rate credible, given the runs (of one policy)? 403/500, "
      "0.806/500, 80.6%/500, or a rate alone");
  app->add_option(
         "--real", options->real,
         "Bound the success rate on a real robot: a result, such as a CSV, of real rollouts "
         "with the seeds of simulated ones; the run is the simulation")
      ->check(CLI::ExistingPath);
  AddNumber(
      app, "--allocate", &options->n_allocated, 1, 1'000'000'000,
      "Which policies should get the next episodes, at most N? Of a suite.json, or of runs of "
      "one task");
  app->add_flag("--force", options->is_forced, "Compare even if env or task differ");
  return [app, options] { return Compare(*app, *options); };
}

}  // namespace dp_bench::app
