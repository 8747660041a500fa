// dp_bench gate: may a candidate replace the baseline? For continuous integration.
#include "compare/gate.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "app/verbs.h"
#include "compare/baseline.h"
#include "core/atomic_file.h"
#include "dp_bench/error.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDetails =
    R"(Holds the test episodes of a finished run against those of a baseline, seed by seed, and looks
at the evidence after every 10 seeds: FAIL where a drop of the success rate is shown, PASS where a
drop of --margin is excluded. Looking often costs nothing: both error rates hold at any stop.

  dp_bench gate --baseline baseline.json --update-baseline --candidate runs/main
  dp_bench gate --baseline baseline.json --candidate runs/branch --junit gate.xml

Exit codes: 0 PASS, 1 FAIL, 2 usage, 3 INCONCLUSIVE, 4 NOT COMPARABLE, 5 too many episodes broke,
6 data.)";

struct Options {
  fs::path baseline;
  fs::path candidate;
  SequentialTestConfig test;
  bool is_nightly = false;
  bool updates_baseline = false;
  fs::path json, junit, markdown;
};

void WriteIfAsked(const fs::path& file, const std::string& text) {
  if (!file.empty()) WriteFileAtomically(file, std::string_view(text));
}

int UpdateBaseline(const Options& options) {
  const RunFolder run = ReadRunFolder(options.candidate);
  WriteFileAtomically(options.baseline, std::string_view(BaselineJson(run)));
  fmt::print("{}: {} is the baseline now\n", options.baseline.string(), options.candidate.string());
  return 0;
}

int Gate(const Options& options) {
  if (options.updates_baseline) return UpdateBaseline(options);
  const GateResult result =
      RunGate(ReadBaseline(options.baseline), ReadRunFolder(options.candidate), options.test);
  fmt::print("{}", GateText(result));
  WriteIfAsked(options.json, ToJson(result).dump(2) + "\n");
  WriteIfAsked(options.junit, GateJUnit(result));
  WriteIfAsked(options.markdown, GateMarkdown(result));
  return ExitCodeOf(result.status);
}

}  // namespace

Verb AddGate(CLI::App* app) {
  auto options = std::make_shared<Options>();
  app->footer(kDetails);
  app->add_option("--baseline", options->baseline, "JSON file that --update-baseline wrote")
      ->required();
  app->add_option("--candidate", options->candidate, "Run folder of an evaluation")
      ->required()
      ->check(CLI::ExistingDirectory);
  app->add_flag("--update-baseline", options->updates_baseline,
                "Write the candidate's outcomes to --baseline instead of testing them");
  CLI::Option* nightly =
      app->add_flag("--nightly", options->is_nightly, "--margin 0.05 --max-pairs 1500");
  CLI::Option* margin =
      app->add_option("--margin", options->test.margin, "The drop that PASS excludes")
          ->capture_default_str();
  app->add_option("--alpha", options->test.alpha, "Bound of the probability of a false FAIL")
      ->capture_default_str();
  app->add_option("--beta", options->test.beta, "Bound of the probability of a false PASS")
      ->capture_default_str();
  CLI::Option* max_pairs =
      app->add_option("--max-pairs", options->test.max_pairs, "INCONCLUSIVE after that many seeds")
          ->capture_default_str();
  app->add_option("--json", options->json, "Write the result, with the test's state, to this file");
  app->add_option("--junit", options->junit, "Write JUnit XML to this file");
  app->add_option("--markdown", options->markdown, "Write a pull-request comment to this file");
  return [options, nightly, margin, max_pairs] {
    const SequentialTestConfig night = SequentialTestConfig::Nightly();
    if (*nightly && margin->empty()) options->test.margin = night.margin;
    if (*nightly && max_pairs->empty()) options->test.max_pairs = night.max_pairs;
    return Gate(*options);
  };
}

}  // namespace dp_bench
