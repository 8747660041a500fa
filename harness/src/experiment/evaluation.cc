#include "experiment/evaluation.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>
#include <vector>

#include "core/atomic_file.h"
#include "core/console.h"
#include "core/progress.h"
#include "dp_bench/error.h"
#include "dp_bench/policy.h"
#include "media/film_grid.h"
#include "report/console_table.h"
#include "report/denoising_strip.h"
#include "report/failure_report.h"
#include "report/html_report.h"
#include "report/latency_report.h"
#include "rollout/normalizer_ranges.h"
#include "rollout/policy_denoising.h"
#include "rollout/policy_planner.h"
#include "rollout/shared_run.h"
#include "run/episode_log.h"
#include "run/run_id.h"
#include "run/seed_use.h"

namespace dp_bench::experiment {
namespace {

constexpr int kFramesInStrip = 6;

run::EnvRunnerConfig ReadConfig(const Experiment& experiment, std::optional<int> n_videos,
                                TestSeeds test_seeds) {
  run::EnvRunnerConfig config =
      run::EnvRunnerConfig::FromConfig(experiment.config().Sub("env_runner"));
  config.n_videos = n_videos.value_or(config.n_videos);
  if (test_seeds == TestSeeds::kSelection) config.test_start_seed = config.selection_start_seed;
  return config;
}

std::string ReadManifest(const std::filesystem::path& output_dir) {
  constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
  const std::filesystem::path manifest = output_dir / "manifest.json";
  return std::filesystem::exists(manifest) ? core::ReadTextFile(manifest, kMaxBytes) : "";
}

// The latency that an evaluation knows which planned nothing takes the place of no other.
void WritePlanning(const PlanningRecord& planning, const std::filesystem::path& output_dir) {
  const bool knows_rollouts = !planning.latency.in_rollouts.chunk_s.empty();
  const std::filesystem::path latency_file = output_dir / report::kLatencyFile;
  if (knows_rollouts || !std::filesystem::exists(latency_file)) {
    core::WriteFileAtomically(latency_file,
                              std::string_view(run::ToJson(planning.latency).dump(2) + "\n"));
  }
  const std::filesystem::path denoising_file = output_dir / report::kDenoisingFile;
  if (planning.denoising) {
    core::WriteFileAtomically(denoising_file,
                              std::string_view(run::ToJson(*planning.denoising).dump() + "\n"));
  } else {
    std::filesystem::remove(denoising_file);
  }
}

}  // namespace

Evaluation::Evaluation(const Experiment& experiment, core::Communicator& ranks,
                       const std::filesystem::path& output_dir, std::optional<int> n_videos,
                       TestSeeds test_seeds)
    : ranks_(ranks),
      shape_meta_(experiment.spec().shape_meta),
      config_(ReadConfig(experiment, n_videos, test_seeds)),
      runner_(
          config_, [&experiment] { return experiment.CreateEnv(); }, experiment.spec().shape_meta,
          experiment.spec().horizons, output_dir) {}

void Evaluation::SetNormalizer(const Normalizer& normalizer) {
  runner_.SetObsRanges(rollout::ObsRangesOf(normalizer, shape_meta_));
}

run::RunResult Evaluation::Run(Policy& policy, torch::Device device, const run::RunHooks& hooks) {
  std::vector<int> all(runner_.jobs().size());
  std::iota(all.begin(), all.end(), 0);
  return Run(policy, device, all, hooks);
}

run::RunResult Evaluation::Run(Policy& policy, torch::Device device, std::span<const int> episodes,
                               const run::RunHooks& hooks) {
  rollout::PolicyPlanner policy_planner(policy, device, config_.micro_batch);
  rollout::TimedPlanner planner(policy_planner, device);
  core::Progress::Output output = core::Progress::StandardError();
  if (!ranks_.is_root()) output.file = nullptr;
  core::Progress progress(output, 0);
  run::RunHooks shown = hooks;
  shown.progress = [&](const run::RunProgress& state) {
    progress.Update({.done = state.n_done, .total = state.n_episodes, .unit = "episodes"},
                    ranks_.size() == 1 ? "rollout" : "rollout, share of rank 0",
                    fmt::format("mean score {:.3f}  failed {}", state.mean_score, state.n_failed));
  };
  run::RunResult result = rollout::RunShared(runner_, planner, ranks_, episodes, shown);
  progress.Pause();
  if (!planner.recorded().empty()) {
    latency_ = planner.latency();
    recorded_ = planner.recorded();
  }
  return result;
}

PlanningRecord Evaluation::RecordPlanning(Policy& policy, torch::Device device) const {
  run::PolicyLatency latency = {.control_hz = runner_.env_spec().control_hz,
                                .is_of_recorded_obs = !recorded_.empty(),
                                .in_rollouts = latency_};
  const std::vector<rollout::RecordedObs> substitute = {rollout::SyntheticObs(policy.spec())};
  latency.alone =
      rollout::MeasurePlanningAlone(policy, device, recorded_.empty() ? substitute : recorded_);
  return {.latency = std::move(latency), .denoising = RecordFirstDenoising(policy, device)};
}

std::optional<run::Denoising> Evaluation::RecordFirstDenoising(Policy& policy,
                                                               torch::Device device) const {
  const std::vector<run::EpisodeJob>& jobs = runner_.jobs();
  if (jobs.empty()) return std::nullopt;
  const auto test = std::ranges::find(jobs, "test", &run::EpisodeJob::split);
  const int episode = test != jobs.end() ? test->episode : 0;
  const std::optional<rollout::RecordedObs> first = runner_.FirstObservation(episode);
  return first ? rollout::RecordDenoising(policy, device, *first) : std::nullopt;
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

std::map<std::string, RgbImage> FilmStripsOf(const run::RunResult& result,
                                             const std::filesystem::path& output_dir) {
  std::map<std::string, RgbImage> strips;
  for (const run::EpisodeRecord& record : result.records) {
    if (record.video.empty()) continue;
    strips.emplace(fmt::format("rollout/{}_{}", record.split, record.seed),
                   media::FilmStrip(output_dir / record.video, kFramesInStrip));
  }
  return strips;
}

int ReportEvaluation(const run::RunResult& result, const PlanningRecord& planning,
                     const std::filesystem::path& output_dir) {
  const std::string manifest = ReadManifest(output_dir);
  const std::optional<run::SeedUse> seeds = run::SeedUseOf(manifest);
  run::WriteEpisodeLog(output_dir, result, seeds ? seeds->n_shared() : 0, run::RunIdOf(manifest));
  WritePlanning(planning, output_dir);
  report::WriteHtmlReport(output_dir);
  core::PrintResult("{}{}{}", report::ResultTable(result), report::FailureText(result.records),
                    report::LatencyTable(planning.latency));
  core::PrintResult("{:.1f} s for {} env steps, of which {:.1f} s in the policy\n", result.wall_s,
                    result.n_env_steps, result.plan_s);
  if (seeds) core::PrintResult("{}\n", run::SeedText(*seeds));
  core::PrintResult("report: {}\n", (output_dir / "report.html").string());
  for (const run::EpisodeRecord& record : result.records) {
    if (record.video_error.empty()) continue;
    core::PrintResult("no video of {} seed {}: {}\n", record.split, record.seed,
                      record.video_error);
  }
  for (const run::EpisodeRecord& record : result.records) {
    if (record.failure_reason) return ExitCodeFor(ErrorCode::kEnv);
  }
  return 0;
}

}  // namespace dp_bench::experiment
