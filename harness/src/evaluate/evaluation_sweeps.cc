// Several evaluations of one checkpoint: dp_bench eval --perturb.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compare/intervals.h"
#include "compare/run_comparison.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "core/parse_number.h"
#include "core/shell.h"
#include "dp_bench/policy.h"
#include "evaluate/checkpoint_evaluation.h"
#include "evaluate/evaluation.h"
#include "evaluate/policy_planning.h"
#include "planner/correction_file.h"
#include "report/evaluation_text.h"
#include "report/html_report.h"
#include "rollout/perturbed_env.h"
#include "run/manifest.h"
#include "run/run_files.h"
#include "run/run_folder.h"
#include "task/sweep.h"

namespace dp_bench::evaluate {
namespace {

namespace fs = std::filesystem;

// One way to make an evaluation harder.
struct PerturbationArm {
  std::string name;                // as on the command line, "delay" or "delay=3"; also its folder
  std::string kind;                // "delay"
  std::optional<double> strength;  // none for `null`
  std::vector<std::string> overrides;  // of the config
  std::string note;                    // why it cannot have an effect; empty if it can
};

constexpr const char* kNull = "null";

constexpr const char* kOfEnv = "env.params.perturb";  // the env's own perturbations
constexpr const char* kOfHarness = "env.perturb";     // for every env

// A perturbation and the config section with its strength.
struct Kind {
  PerturbationSpec spec;
  const char* section;
};

// The unperturbed task and its possible perturbations.
struct Subject {
  std::string env;
  bool has_images = false;
  std::vector<Kind> kinds;
};

Subject Examine(const task::ExperimentOptions& experiment) {
  const task::Task task(experiment);
  const Config env = task.config().Sub("env");
  if (env.Has("perturb") || env.Sub("params").Has("perturb")) {
    throw UsageError(
        "the config has {} or {}: arms are compared with an unperturbed evaluation; evaluate "
        "without --perturb, or remove the section",
        kOfHarness, kOfEnv);
  }
  Subject subject = {.env = task.env_name(),
                     .has_images = std::ranges::any_of(
                         task.shape_meta().obs, [](const KeySpec& key) { return key.is_image(); })};
  for (PerturbationSpec& spec : task.DescribeEnv().perturbations) {
    subject.kinds.push_back({std::move(spec), kOfEnv});
  }
  for (PerturbationSpec& spec : rollout::ActionPerturbation::Kinds()) {
    subject.kinds.push_back({std::move(spec), kOfHarness});
  }
  return subject;
}

const Kind& FindKind(const std::string& name, const Subject& subject) {
  const auto kind = std::ranges::find_if(
      subject.kinds, [&name](const Kind& known) { return name == known.spec.name; });
  if (kind != subject.kinds.end()) return *kind;
  std::vector<std::string> names;
  for (const Kind& known : subject.kinds) names.push_back(known.spec.name);
  throw UsageError("--perturb: env '{}' has no perturbation '{}'; it has {} and {}", subject.env,
                   name, fmt::join(names, ", "), kNull);
}

double ParseStrength(const std::string& text, std::size_t begin) {
  const auto value = core::ParseNumber<double>(std::string_view(text).substr(begin));
  if (value) return *value;
  throw UsageError("--perturb: expected a number after the '=' of '{}'", text);
}

// Finds a strength out of range before any arm runs.
void RequireValid(const PerturbationArm& arm, task::ExperimentOptions experiment) {
  std::ranges::copy(arm.overrides, std::back_inserter(experiment.overrides));
  task::Task(experiment).DescribeEnv();
}

std::string Override(const Kind& kind, double strength) {
  return fmt::format("{}.{}={}", kind.section, kind.spec.name, strength);
}

// All perturbations at strength 0, which must have no effect.
PerturbationArm NullArm(const Subject& subject) {
  PerturbationArm arm = {.name = kNull, .kind = kNull};
  for (const Kind& kind : subject.kinds) arm.overrides.push_back(Override(kind, 0.0));
  return arm;
}

PerturbationArm ReadArm(const std::string& text, const Subject& subject) {
  if (text == kNull) return NullArm(subject);
  const std::size_t equals = std::min(text.find('='), text.size());
  const Kind& kind = FindKind(text.substr(0, equals), subject);
  PerturbationArm arm = {.name = text, .kind = kind.spec.name};
  arm.strength = equals < text.size() ? ParseStrength(text, equals + 1) : kind.spec.strength;
  arm.overrides = {Override(kind, *arm.strength)};
  if (kind.spec.is_visual && !subject.has_images) {
    arm.note = fmt::format("{} cannot have an effect: the policy sees no images", text);
  }
  return arm;
}

// Parses `texts`, each KIND or KIND=STRENGTH. `experiment` must be unperturbed. Throws
// Error{kUsage} for a perturbed experiment or an unknown kind, listing the known ones;
// Error{kConfig} for a strength out of range.
std::vector<PerturbationArm> ReadArms(std::span<const std::string> texts,
                                      const task::ExperimentOptions& experiment) {
  if (texts.size() >= compare::kMaxComparedRuns) {
    throw UsageError("--perturb: expected at most {} arms, found {}", compare::kMaxComparedRuns - 1,
                     texts.size());
  }
  const Subject subject = Examine(experiment);
  std::vector<PerturbationArm> arms;
  std::set<std::string> names;
  for (const std::string& text : texts) {
    if (!names.insert(text).second) throw UsageError("--perturb: '{}' is listed twice", text);
    arms.push_back(ReadArm(text, subject));
    RequireValid(arms.back(), experiment);
  }
  return arms;
}

run::PerturbedArm EffectOf(const PerturbationArm& arm, const compare::ComparedRun& run,
                           const compare::CandidateComparison& against_control) {
  const auto n_changed = std::ranges::count_if(
      against_control.outcomes.pairs,
      [](const compare::EpisodePair& pair) { return pair.a.trace_hash != pair.b.trace_hash; });
  const std::string& why_unpaired = against_control.why_unpaired;
  std::string note = arm.note;
  if (!why_unpaired.empty()) {
    note += fmt::format("{}{} is compared unpaired: {}", note.empty() ? "" : ". ", arm.name,
                        why_unpaired);
  }
  const compare::DifferenceInterval& rate = against_control.success_rate;
  const compare::MeanInterval& score = against_control.score;
  return {
      .name = arm.name,
      .kind = arm.kind,
      .strength = arm.strength,
      .note = note,
      .folder = fmt::format("{}/{}", run::kArmsFolder, arm.name),
      .result = run.test,
      .success_rate = {rate.difference, rate.low, rate.high},
      .score = {score.mean, score.low, score.high},
      .p_mcnemar = against_control.p_exact,
      .p_holm = against_control.p_holm,
      .n_changed = why_unpaired.empty() ? std::optional(static_cast<int>(n_changed)) : std::nullopt,
      .n_pairs = against_control.outcomes.counts.n()};
}

// The control and its arms, one after the other, in one run folder.
class ArmsEvaluation {
 public:
  ArmsEvaluation(CheckpointEvaluationOptions options, core::Communicator& ranks)
      : options_(std::move(options)),
        ranks_(ranks),
        is_resumed_(!options_.resume.empty()),
        control_(is_resumed_ ? options_.resume : options_.output) {}

  int Run(const std::vector<std::string>& texts);

 private:
  task::ExperimentOptions Unperturbed() const;
  std::vector<task::SweepRun> RunsOf(const std::vector<PerturbationArm>& arms) const;
  CheckpointEvaluationOptions OptionsOf(const task::SweepRun& arm) const;
  task::DoneRuns WhatIsDone() const;
  int EvaluateControl();

  // Writes the effects of the arms. True if no episode failed.
  bool ReportEffects(const std::vector<PerturbationArm>& arms,
                     const std::vector<task::SweepRun>& arm_runs) const;

  CheckpointEvaluationOptions options_;
  core::Communicator& ranks_;
  bool is_resumed_;
  fs::path control_;                          // empty until a new folder is created
  std::unique_ptr<task::OutputFolder> held_;  // the control's, for the effects at the end
};

int ArmsEvaluation::Run(const std::vector<std::string>& texts) {
  const std::vector<PerturbationArm> arms = ReadArms(texts, Unperturbed());
  for (const PerturbationArm& arm : arms) {
    if (!arm.note.empty()) core::PrintResult("note: {}\n", arm.note);
  }
  // once: the arms must not differ in what was measured
  if (!is_resumed_) ProvideRealtimeLatency(&options_, ranks_);
  int exit_code = EvaluateControl();
  const std::vector<task::SweepRun> runs = RunsOf(arms);
  if (exit_code != core::kExitInterrupted) {
    exit_code = task::RunSweep(runs, WhatIsDone(), ranks_,
                               [this](const task::SweepRun& arm, task::SweepProgress) {
                                 return CheckpointEvaluation(OptionsOf(arm), ranks_).RunToItsEnd();
                               });
  }
  if (exit_code == core::kExitInterrupted) {
    core::PrintResult("with the arms: --resume {} --perturb {}\n",
                      core::ShellWord(control_.string()), fmt::join(texts, ","));
    return exit_code;
  }
  if (!ranks_.is_root()) return 0;
  return ReportEffects(arms, runs) ? 0 : ExitCodeFor(ErrorCode::kEnv);
}

// The unperturbed config.
task::ExperimentOptions ArmsEvaluation::Unperturbed() const {
  task::ExperimentOptions experiment = WithConfig(options_);
  if (is_resumed_) experiment.config = options_.resume / run::kConfigFile;
  return experiment;
}

std::vector<task::SweepRun> ArmsEvaluation::RunsOf(const std::vector<PerturbationArm>& arms) const {
  std::vector<task::SweepRun> runs;
  for (const PerturbationArm& arm : arms) {
    runs.push_back({.title = "\nperturbation " + arm.name,
                    .folder = control_ / run::kArmsFolder / arm.name,
                    .overrides = arm.overrides});
  }
  return runs;
}

// A resumed folder keeps what is done. With more seeds, a finished evaluation continues.
task::DoneRuns ArmsEvaluation::WhatIsDone() const {
  return is_resumed_ && options_.experiment.overrides.empty() ? task::DoneRuns::kSkip
                                                              : task::DoneRuns::kRepeat;
}

int ArmsEvaluation::EvaluateControl() {
  int exit_code = 0;
  if (WhatIsDone() == task::DoneRuns::kSkip &&
      task::ProgressOf(control_) == task::SweepProgress::kDone) {
    held_ = std::make_unique<task::OutputFolder>(control_, task::OldRun::kContinue, ranks_);
  } else {
    CheckpointEvaluation evaluation(options_, ranks_);
    control_ = evaluation.folder();
    exit_code = evaluation.RunToItsEnd();
    held_ = evaluation.TakeFolder();
  }
  // missing arms of a resumed folder use its checkpoint and config
  if (is_resumed_) TakeFromFolder(&options_);
  return exit_code;
}

CheckpointEvaluationOptions ArmsEvaluation::OptionsOf(const task::SweepRun& arm) const {
  CheckpointEvaluationOptions options = options_;
  if (is_resumed_ && fs::exists(arm.folder / run::kManifestFile)) {
    options.resume = arm.folder;
    options.experiment.config.clear();
    return options;
  }
  options.resume.clear();
  options.output = arm.folder;
  options.overwrites = true;  // a kill may have left an incomplete one
  std::ranges::copy(arm.overrides, std::back_inserter(options.experiment.overrides));
  return options;
}

bool ArmsEvaluation::ReportEffects(const std::vector<PerturbationArm>& arms,
                                   const std::vector<task::SweepRun>& arm_runs) const {
  std::vector<run::RunFolder> runs = {compare::RequireComparable(run::ReadRunFolder(control_))};
  for (const task::SweepRun& arm : arm_runs) {
    runs.push_back(compare::RequireComparable(run::ReadRunFolder(arm.folder)));
  }
  const compare::RunComparison comparison = compare::CompareRuns(std::move(runs), {});
  const compare::ComparedRun& control = comparison.runs[0];
  run::PerturbationEffects effects = {.control = control.test};
  for (std::size_t i = 0; i < arms.size(); ++i) {
    effects.arms.push_back(EffectOf(arms[i], comparison.runs[i + 1], comparison.candidates[i]));
  }
  run::WriteEffects(control_, effects);
  report::WriteHtmlReport(control.files);
  core::PrintResult("\n{}{}\n", report::EffectsTable(effects),
                    (control_ / run::kEffectsFile).string());
  return std::ranges::all_of(comparison.runs, [](const compare::ComparedRun& run) {
    return std::ranges::none_of(run.files.episodes, &run::EpisodeRecord::has_failed);
  });
}

// At most as many quantiles as a config should have.
std::vector<double> Thinned(std::vector<double> samples) {
  constexpr std::size_t kMost = 1001;
  std::ranges::sort(samples);
  if (samples.size() <= kMost) return samples;
  std::vector<double> quantiles;
  for (std::size_t i = 0; i < kMost; ++i) {
    quantiles.push_back(samples[i * (samples.size() - 1) / (kMost - 1)]);
  }
  return quantiles;
}

}  // namespace

int EvaluateWithArms(CheckpointEvaluationOptions options, const std::vector<std::string>& texts,
                     core::Communicator& ranks) {
  return ArmsEvaluation(std::move(options), ranks).Run(texts);
}

void ProvideRealtimeLatency(CheckpointEvaluationOptions* options, core::Communicator& ranks) {
  const task::Experiment experiment(WithConfig(*options));
  const control::EnvRunnerConfig runner = experiment.runner();
  if (const auto& file = runner.chunking.corrector; file && !runner.chunking.corrector_sha256) {
    options->experiment.overrides.push_back("env_runner.chunking.corrector_sha256=" +
                                            planner::CorrectionHash(*file));
  }
  if (const auto& file = runner.chunking.latency.file) {
    const std::vector<double> samples = Thinned(run::ReadLatencySamples(*file));
    options->experiment.overrides.push_back(
        fmt::format("env_runner.chunking.latency.samples_ms=[{:.6g}]", fmt::join(samples, ",")));
    options->experiment.overrides.emplace_back("env_runner.chunking.latency.file=null");
  }
  if (runner.realtime == 0.0 || runner.realtime_latency_ms > 0.0) return;
  if (options->shard) {
    throw UsageError(
        "--shard: give env_runner.realtime_latency_ms, because each shard would measure another "
        "latency");
  }
  const std::unique_ptr<Policy> policy =
      experiment.LoadPolicy(options->checkpoint, options->weights);
  const std::vector<control::RecordedObs> obs = {SyntheticObs(experiment.spec())};
  const run::LatencySummary latency =
      RequireLatencyAlone(*policy, experiment.device(), runner.chunking, obs);
  const std::string ms = ranks.FromRoot(fmt::format("{:.3f}", 1e3 * latency.p50_s));
  core::PrintResult("a plan takes {} ms (median of {}): env_runner.realtime_latency_ms={}\n", ms,
                    latency.n, ms);
  options->experiment.overrides.push_back("env_runner.realtime_latency_ms=" + ms);
}

}  // namespace dp_bench::evaluate
