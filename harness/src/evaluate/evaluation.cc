#include "evaluate/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "core/atomic_file.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/progress.h"
#include "dp_bench/policy.h"
#include "evaluate/certify_policy.h"
#include "media/video_grid.h"
#include "planner/correction_file.h"
#include "planner/policy_planner.h"
#include "planner/recording_planner.h"
#include "report/evaluation_text.h"
#include "report/html_report.h"
#include "run/checkpoint.h"
#include "run/episode_log.h"
#include "run/manifest.h"
#include "run/run_cost.h"
#include "run/run_files.h"
#include "task/output_folder.h"

namespace dp_bench::evaluate {
namespace {

constexpr std::size_t kLeastExtrapolated =
    20;  // episodes; with fewer, most of the time is the start
constexpr int kFramesInStrip = 6;

control::EnvRunnerConfig ReadConfig(const task::Experiment& experiment, std::optional<int> n_videos,
                                    TestSeeds test_seeds) {
  control::EnvRunnerConfig config = experiment.runner();
  config.n_videos = n_videos.value_or(config.n_videos);
  if (test_seeds == TestSeeds::kSelection) {
    config.test_start_seed = config.selection_start_seed;
    config.n_test = config.n_selection.value_or(config.n_test);
  }
  return config;
}

// An env of Gymnasium knows only its own last step.
void RequireEndIsReached(const task::Experiment& experiment, const control::EnvRunnerConfig& config,
                         const EnvSpec& spec) {
  const nlohmann::json json = nlohmann::json::parse(experiment.config().ToJson());
  const bool counts_end = core::TextAt(json, "/env/params/success_when") == "end";
  if (!counts_end || config.max_steps == 0 || config.max_steps == spec.max_steps) return;
  throw ConfigError(
      "env_runner.max_steps={0} is not the end of the env, which has {1} steps, so with "
      "env.params.success_when=end the wrong step would be judged; set env.params.max_steps={0} "
      "instead",
      config.max_steps, spec.max_steps);
}

namespace fs = std::filesystem;

run::CheckpointChoice CheckpointOf(const run::RunFolder& run) {
  if (const auto evaluated = run::EvaluatedCheckpoint(run.manifest)) return *evaluated;
  const fs::path latest = run.path / run::kCheckpointsFolder / run::kLatest;
  if (!fs::exists(latest)) {
    throw UsageError(
        "'{}' cannot be replayed: its manifest.json names no checkpoint, and there is no {}",
        run.path.string(), latest.string());
  }
  return {latest, fs::exists(latest / run::kEmaFile) ? "ema" : "model"};
}

void WarnOfOtherCheckpoint(const run::RunFolder& run, const fs::path& checkpoint) {
  const nlohmann::json manifest = core::TryParseJson(run.manifest);
  const core::JsonView then(manifest, run::kManifestFile);
  if (!then.Has("checkpoint")) return;
  if (then.At("checkpoint").Get<std::string>("sha256") == run::CheckpointHash(checkpoint)) return;
  core::LogWarning("the checkpoint {} has changed since the run", checkpoint.string());
}

}  // namespace

Evaluation::Evaluation(const task::Experiment& experiment, core::Communicator& ranks,
                       const std::filesystem::path& output_dir, std::optional<int> n_videos,
                       TestSeeds test_seeds)
    : ranks_(ranks),
      output_dir_(output_dir),
      shape_meta_(experiment.spec().shape_meta),
      config_(ReadConfig(experiment, n_videos, test_seeds)),
      runner_(
          config_, [&experiment] { return experiment.CreateEnv(); }, experiment.spec().shape_meta,
          experiment.spec().horizons, output_dir) {
  RequireEndIsReached(experiment, config_, runner_.env_spec());
  runner_.SetCorrection(planner::ReadCorrection(config_.chunking, experiment.spec()));
}

std::shared_ptr<control::ChunkPlanner> Evaluation::MakePlanner(std::shared_ptr<TimedPlanner> timed,
                                                               const PolicySpec& spec) {
  if (!config_.record_plans) return timed;
  if (plans_ == nullptr) {
    plans_ = std::make_shared<run::PlanRecordWriter>(output_dir_ / run::kPlansFolder);
  }
  return std::make_shared<planner::RecordingPlanner>(std::move(timed), plans_, spec);
}

void Evaluation::SetNormalizer(const Normalizer& normalizer) {
  runner_.SetObsRanges(ObsRangesOf(normalizer, shape_meta_));
}

void Evaluation::RequirePlannable(Policy& policy, torch::Device device) const {
  if (config_.record_plans && ranks_.size() > 1) {
    throw UsageError("env_runner.record_plans needs a single process");
  }
  RequireSeedsApart(config_, policy.Provenance());
  planner::MakePlanner(policy, device, config_.micro_batch, ChunkingOfPlans());  // throws
}

run::RunResult Evaluation::Run(Policy& policy, torch::Device device, const run::RunHooks& hooks) {
  std::vector<int> all(runner_.jobs().size());
  std::iota(all.begin(), all.end(), 0);
  return Run(policy, device, all, hooks);
}

// With the delay of env_runner.realtime or latency, if one of them says how long a plan takes.
control::ChunkingConfig Evaluation::ChunkingOfPlans() const {
  control::ChunkingConfig chunking = config_.chunking;
  chunking.delay = runner_.plan_delay();
  return chunking;
}

run::RunResult Evaluation::Run(Policy& policy, torch::Device device, std::span<const int> episodes,
                               const run::RunHooks& hooks) {
  const std::unique_ptr<control::ChunkPlanner> policy_planner =
      planner::MakePlanner(policy, device, config_.micro_batch, ChunkingOfPlans());
  const auto timed = std::make_shared<TimedPlanner>(*policy_planner, device);
  const auto planner = MakePlanner(timed, policy.spec());
  core::Progress::Output output = core::Progress::StandardError();
  if (!ranks_.is_root()) output.file = nullptr;
  core::Progress progress(output, 0);
  run::RunHooks shown = hooks;
  shown.progress = [&](const run::RunProgress& state) {
    progress.Update({.done = state.n_done, .total = state.n_episodes, .unit = "episodes"},
                    ranks_.size() == 1 ? "rollout" : "rollout, rank 0",
                    fmt::format("mean score {:.3f}  failed {}", state.mean_score, state.n_failed));
  };
  run::RunResult result = rollout::RunShared(runner_, *planner, ranks_, episodes, shown);
  progress.Pause();
  if (!timed->recorded().empty()) {
    latency_ = timed->latency();
    recorded_ = timed->recorded();
  }
  return result;
}

run::PolicyLatencySummary Evaluation::MeasureLatency(Policy& policy, torch::Device device) const {
  const double control_hz = runner_.env_spec().control_hz;
  run::PolicyLatencySummary latency = {.control_hz = control_hz,
                                       .deadline_s = 1.0 / control_hz,
                                       .is_of_recorded_obs = !recorded_.empty(),
                                       .load = core::ReadMachineLoad()};
  const std::vector<control::RecordedObs> substitute = {SyntheticObs(policy.spec())};
  const run::PlanningLatency alone = MeasurePlanningAlone(
      policy, device, ChunkingOfPlans(), recorded_.empty() ? substitute : recorded_);
  latency.alone = run::Summarize(alone, latency.deadline_s);
  if (!latency_.chunk_s.empty()) {
    latency.in_rollouts = run::Summarize(latency_, latency.deadline_s);
  }
  return latency;
}

run::ObsRanges ObsRangesOf(const Normalizer& normalizer, const ShapeMeta& shape_meta) {
  run::ObsRanges ranges;
  for (const KeySpec& key : shape_meta.obs) {
    const auto field = normalizer.fields().find(key.name);
    if (key.type != KeyType::kLowDim || field == normalizer.fields().end()) continue;
    const KeyStats& stats = field->second.stats;
    const auto n = static_cast<std::size_t>(key.NumElements());
    if (stats.min.size() != n || stats.max.size() != n) continue;
    ranges[key.name] = {.low = stats.min, .high = stats.max};
  }
  return ranges;
}

std::map<std::string, double> MetricsOf(const run::RunResult& result) {
  std::map<std::string, double> metrics;
  for (const std::string split : {"train", "test"}) {
    const run::SplitSummary summary = run::Summarize(result.records, split);
    if (summary.n_episodes == 0) continue;
    metrics[split + "/mean_score"] = summary.mean_score;
    metrics[split + "/success_rate"] = summary.success_rate;
  }
  return metrics;
}

std::map<std::string, RgbImage> VideoStripsOf(const run::RunResult& result,
                                              const std::filesystem::path& output_dir) {
  std::map<std::string, RgbImage> strips;
  for (const run::EpisodeRecord& record : result.records) {
    if (record.video.empty()) continue;
    strips.emplace(fmt::format("rollout/{}_{}", record.split, record.seed),
                   media::VideoStrip(output_dir / record.video, kFramesInStrip));
  }
  return strips;
}

int ReportEvaluation(const run::RunResult& result, const run::PolicyLatencySummary& latency,
                     const std::filesystem::path& output_dir) {
  run::WriteResults(output_dir, result, latency);
  const run::RunFolder folder = run::ReadRunFolder(output_dir);
  const std::string seeds = folder.seeds ? run::SeedText(*folder.seeds) + "\n" : "";
  report::WriteHtmlReport(folder);
  core::PrintResult("{}{}{}", report::ResultTable(result), report::FailureText(result.records),
                    report::LatencyTable(latency));
  core::PrintResult("{:.1f} s for {} env steps, of which {:.1f} s in the policy\n", result.wall_s,
                    result.n_env_steps, result.plan_s);
  core::PrintResult("{}report: {}\n", seeds, folder.report_file().string());
  for (const std::string& missing : run::MissingVideos(result.records)) {
    core::PrintResult("{}\n", missing);
  }
  for (const fs::path& journal : run::JournalsIn(output_dir)) fs::remove(journal);
  const bool is_broken = std::ranges::any_of(result.records, &run::EpisodeRecord::has_failed);
  return is_broken ? ExitCodeFor(ErrorCode::kEnv) : 0;
}

void RecordCost(core::CostMeter& meter, const std::filesystem::path& output_dir,
                const core::Communicator& ranks, std::size_t n_episodes) {
  if (!ranks.is_root()) return;
  run::AddCost(output_dir, meter.Read());
  const std::string text = core::ReadTextFile(output_dir / run::kCostFile, std::size_t{1} << 20);
  const core::Cost cost = run::ParseCost(text, "cost.json");
  core::PrintStatus("cost: {}\n", run::Describe(cost));
  if (n_episodes < kLeastExtrapolated) return;
  const double factor = 1000.0 / static_cast<double>(n_episodes);
  core::PrintStatus(
      "for 1,000 episodes: {}, CPU time {}{}\n", core::FormatDuration(factor * cost.wall_s),
      core::FormatDuration(factor * cost.cpu_s),
      cost.energy_j ? fmt::format(", {:.3g} kJ", 1e-3 * factor * *cost.energy_j) : "");
}

const run::EpisodeRecord& EpisodeAt(const run::RunFolder& run, int place) {
  const auto found = std::ranges::find(run.episodes, place, &run::EpisodeRecord::episode);
  if (found != run.episodes.end()) return *found;
  throw UsageError("'{}' has no episode {}; it has {} of them", run.path.string(), place,
                   run.episodes.size());
}

run::EpisodeRecord RunRecordedEpisode(const run::RunFolder& run, int place,
                                      const std::vector<std::string>& overrides,
                                      const fs::path& output) {
  EpisodeAt(run, place);
  const run::CheckpointChoice choice = CheckpointOf(run);
  task::ExperimentOptions options;
  options.config = run.config_file();
  options.overrides = {"env_runner.record_traces=true"};
  options.overrides.insert(options.overrides.end(), overrides.begin(), overrides.end());
  const task::Experiment experiment(options);
  if (!choice.folder.empty()) WarnOfOtherCheckpoint(run, choice.folder);
  const std::unique_ptr<Policy> policy = experiment.LoadPolicy(choice.folder, choice.weights);

  core::SingleProcess ranks;
  Evaluation evaluation(experiment, ranks, output, /*n_videos=*/std::numeric_limits<int>::max());
  const run::RunResult result =
      evaluation.Run(*policy, experiment.device(), std::span<const int>(&place, 1), {});
  return result.records.at(0);
}

}  // namespace dp_bench::evaluate
