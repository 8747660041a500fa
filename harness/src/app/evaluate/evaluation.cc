#include "app/evaluate/evaluation.h"

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
#include "media/film_strip.h"
#include "report/console_table.h"
#include "report/denoising_strip.h"
#include "report/failure_report.h"
#include "report/html_report.h"
#include "report/latency_report.h"
#include "rollout/episode_log.h"
#include "rollout/normalizer_ranges.h"
#include "rollout/policy_denoising.h"
#include "rollout/policy_planner.h"
#include "rollout/run_id.h"
#include "rollout/seed_use.h"
#include "rollout/shared_run.h"

namespace dp_bench {
namespace {

constexpr int kFramesInStrip = 6;

EnvRunnerConfig ReadConfig(const Experiment& experiment, std::optional<int> n_videos,
                           TestSeeds test_seeds) {
  EnvRunnerConfig config = EnvRunnerConfig::FromConfig(experiment.config().Sub("env_runner"));
  config.n_videos = n_videos.value_or(config.n_videos);
  if (test_seeds == TestSeeds::kSelection) config.test_start_seed = config.selection_start_seed;
  return config;
}

std::string ReadManifest(const std::filesystem::path& output_dir) {
  constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
  const std::filesystem::path manifest = output_dir / "manifest.json";
  return std::filesystem::exists(manifest) ? ReadTextFile(manifest, kMaxBytes) : "";
}

// The latency that an evaluation knows which planned nothing takes the place of no other.
void WritePlanning(const PlanningRecord& planning, const std::filesystem::path& output_dir) {
  const bool knows_rollouts = !planning.latency.in_rollouts.chunk_s.empty();
  const std::filesystem::path latency_file = output_dir / kLatencyFile;
  if (knows_rollouts || !std::filesystem::exists(latency_file)) {
    WriteFileAtomically(latency_file, std::string_view(ToJson(planning.latency).dump(2) + "\n"));
  }
  const std::filesystem::path denoising_file = output_dir / kDenoisingFile;
  if (planning.denoising) {
    WriteFileAtomically(denoising_file,
                        std::string_view(ToJson(*planning.denoising).dump() + "\n"));
  } else {
    std::filesystem::remove(denoising_file);
  }
}

}  // namespace

Evaluation::Evaluation(const Experiment& experiment, Communicator& ranks,
                       const std::filesystem::path& output_dir, std::optional<int> n_videos,
                       TestSeeds test_seeds)
    : ranks_(ranks),
      shape_meta_(experiment.spec().shape_meta),
      config_(ReadConfig(experiment, n_videos, test_seeds)),
      runner_(
          config_, [&experiment] { return experiment.CreateEnv(); }, experiment.spec().shape_meta,
          experiment.spec().horizons, output_dir) {}

void Evaluation::SetNormalizer(const Normalizer& normalizer) {
  runner_.SetObsRanges(ObsRangesOf(normalizer, shape_meta_));
}

RunResult Evaluation::Run(Policy& policy, torch::Device device, const RunHooks& hooks) {
  std::vector<int> all(runner_.jobs().size());
  std::iota(all.begin(), all.end(), 0);
  return Run(policy, device, all, hooks);
}

RunResult Evaluation::Run(Policy& policy, torch::Device device, std::span<const int> episodes,
                          const RunHooks& hooks) {
  PolicyPlanner policy_planner(policy, device, config_.micro_batch);
  TimedPlanner planner(policy_planner, device);
  Progress::Output output = Progress::StandardError();
  if (!ranks_.is_root()) output.file = nullptr;
  Progress progress(output, 0);
  RunHooks shown = hooks;
  shown.progress = [&](const RunProgress& state) {
    progress.Update({.done = state.n_done, .total = state.n_episodes, .unit = "episodes"},
                    ranks_.size() == 1 ? "rollout" : "rollout, share of rank 0",
                    fmt::format("mean score {:.3f}  failed {}", state.mean_score, state.n_failed));
  };
  RunResult result = RunShared(runner_, planner, ranks_, episodes, shown);
  progress.Pause();
  if (!planner.recorded().empty()) {
    latency_ = planner.latency();
    recorded_ = planner.recorded();
  }
  return result;
}

PlanningRecord Evaluation::RecordPlanning(Policy& policy, torch::Device device) const {
  PolicyLatency latency = {.control_hz = runner_.env_spec().control_hz,
                           .is_of_recorded_obs = !recorded_.empty(),
                           .in_rollouts = latency_};
  const std::vector<RecordedObs> substitute = {SyntheticObs(policy.spec())};
  latency.alone = MeasurePlanningAlone(policy, device, recorded_.empty() ? substitute : recorded_);
  return {.latency = std::move(latency), .denoising = RecordFirstDenoising(policy, device)};
}

std::optional<Denoising> Evaluation::RecordFirstDenoising(Policy& policy,
                                                          torch::Device device) const {
  const std::vector<EpisodeJob>& jobs = runner_.jobs();
  if (jobs.empty()) return std::nullopt;
  const auto test = std::ranges::find(jobs, "test", &EpisodeJob::split);
  const int episode = test != jobs.end() ? test->episode : 0;
  const std::optional<RecordedObs> first = runner_.FirstObservation(episode);
  return first ? RecordDenoising(policy, device, *first) : std::nullopt;
}

std::map<std::string, double> MetricsOf(const RunResult& result) {
  std::map<std::string, double> metrics;
  for (const std::string split : {"train", "test"}) {
    const SplitSummary summary = Summarize(result.records, split);
    if (summary.n_episodes == 0) continue;
    metrics[split + "/mean_score"] = summary.mean_score;
    metrics[split + "/success_rate"] = summary.success_rate;
  }
  return metrics;
}

std::map<std::string, RgbImage> FilmStripsOf(const RunResult& result,
                                             const std::filesystem::path& output_dir) {
  std::map<std::string, RgbImage> strips;
  for (const EpisodeRecord& record : result.records) {
    if (record.video.empty()) continue;
    strips.emplace(fmt::format("rollout/{}_{}", record.split, record.seed),
                   FilmStrip(output_dir / record.video, kFramesInStrip));
  }
  return strips;
}

int ReportEvaluation(const RunResult& result, const PlanningRecord& planning,
                     const std::filesystem::path& output_dir) {
  const std::string manifest = ReadManifest(output_dir);
  const std::optional<SeedUse> seeds = SeedUseOf(manifest);
  WriteEpisodeLog(output_dir, result, seeds ? seeds->n_shared() : 0, RunIdOf(manifest));
  WritePlanning(planning, output_dir);
  WriteHtmlReport(output_dir);
  PrintResult("{}{}{}", ResultTable(result), FailureText(result.records),
              LatencyTable(planning.latency));
  PrintResult("{:.1f} s for {} env steps, of which {:.1f} s in the policy\n", result.wall_s,
              result.n_env_steps, result.plan_s);
  if (seeds) PrintResult("{}\n", SeedText(*seeds));
  PrintResult("report: {}\n", (output_dir / "report.html").string());
  for (const EpisodeRecord& record : result.records) {
    if (record.video_error.empty()) continue;
    PrintResult("no video of {} seed {}: {}\n", record.split, record.seed, record.video_error);
  }
  for (const EpisodeRecord& record : result.records) {
    if (record.failure_reason) return ExitCodeFor(ErrorCode::kEnv);
  }
  return 0;
}

}  // namespace dp_bench
