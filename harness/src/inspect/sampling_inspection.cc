// See sampling_inspection.h.
#include "inspect/sampling_inspection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>

#include "dp_bench/error.h"
#include "inspect/checkpoint_checks.h"
#include "inspect/normalizer_checks.h"
#include "inspect/probe.h"
#include "policy/stage_recorder.h"
#include "rollout/obs_history.h"
#include "rollout/policy_planner.h"
#include "run/planning.h"

namespace dp_bench::inspect {
namespace {

constexpr int kChunks = 8;
constexpr std::uint64_t kNoiseSeed = 7;

// What one sampling gives, with or without data.
struct SampledBatch {
  SamplingSample sample;
  std::int64_t n_chunks = 0;
};

SampledBatch SampleForData(const SamplingInspectionCase& subject) {
  const std::vector<bool> all(subject.dataset->episode_ends().size(), true);
  const Probe probe(*subject.dataset, subject.policy, all, kChunks, /*n_batches=*/1, kNoiseSeed);
  if (probe.size() == 0)
    throw Error(ErrorCode::kData, "the data set has no sequence to sample for");
  return {.sample = RecordSampling(subject.policy, subject.normalizer, probe),
          .n_chunks = probe.batch(0).action.size(0)};
}

// The first observations of the first test episodes.
std::vector<rollout::RecordedObs> ObserveEnv(const SamplingInspectionCase& subject) {
  auto config = run::EnvRunnerConfig::FromConfig(subject.config.Sub("env_runner"));
  config.n_train = 0;
  config.n_test = kChunks;
  config.n_videos = 0;
  config.realtime = 0.0;
  config.record_traces = false;
  const PolicySpec& spec = subject.policy.spec();
  const rollout::EnvRunner runner(config, subject.make_env, spec.shape_meta, spec.horizons,
                                  /*output_dir=*/{});
  std::vector<rollout::RecordedObs> observed;
  for (int episode = 0; episode < kChunks; ++episode) {
    if (auto first = runner.FirstObservation(episode)) observed.push_back(std::move(*first));
  }
  if (observed.empty()) throw Error(ErrorCode::kData, "no episode of the env could be started");
  return observed;
}

rollout::ObsBatch JoinedRows(const std::vector<rollout::RecordedObs>& observed,
                             const PolicySpec& spec) {
  rollout::ObsBatch batch = rollout::MakeObsBatch(
      spec.shape_meta.obs, static_cast<int>(observed.size()), spec.horizons.n_obs_steps);
  for (auto& [key, rows] : batch) {
    std::byte* out = rows.bytes().data();
    for (const rollout::RecordedObs& one : observed) {
      const std::span<const std::byte> bytes = one.obs.at(key).bytes();
      std::memcpy(out, bytes.data(), bytes.size());
      out += bytes.size();
    }
  }
  return batch;
}

SampledBatch SampleForEnv(const SamplingInspectionCase& subject) {
  const PolicySpec& spec = subject.policy.spec();
  const std::vector<rollout::RecordedObs> observed = ObserveEnv(subject);
  const rollout::ObsBatch batch = JoinedRows(observed, spec);
  std::vector<rollout::PlanRow> rows;
  for (const rollout::RecordedObs& one : observed) rows.push_back(one.row);
  std::vector<float> actions(
      observed.size() *
      static_cast<std::size_t>(spec.horizons.n_action_steps * spec.shape_meta.action_dim()));
  train::SamplingTrace trace;
  {
    const policy::StageRecorder recorder(std::bind_front(&train::SamplingTrace::Note, &trace));
    rollout::PolicyPlanner(subject.policy, torch::kCPU, static_cast<int>(rows.size()))
        .Plan(batch, rows, actions);
  }
  const bool is_finite =
      std::ranges::all_of(actions, [](float value) { return std::isfinite(value); });
  return {.sample = {.steps = trace.steps(), .is_finite = is_finite},
          .n_chunks = std::ssize(observed)};
}

void AppendFindings(const SamplingInspectionCase& subject, const SamplingSample& sample,
                    SamplingInspection* inspection) {
  Findings& findings = inspection->findings;
  findings.push_back(CheckDivergence(sample.steps, sample.is_finite, inspection->scheduler));
  if (inspection->error) findings.push_back(CheckActionError(sample));
  if (!inspection->scheduler) return;
  if (inspection->scheduler->clip_sample) {
    findings.push_back(CheckFittedClipRange(subject.normalizer, *inspection->scheduler));
  }
  std::ranges::move(CheckClipping({.steps = sample.steps,
                                   .scheduler = inspection->scheduler,
                                   .normalizer = subject.normalizer,
                                   .recorded = sample.recorded}),
                    std::back_inserter(findings));
}

const char* SamplerName(const NoiseSchedulerConfig& scheduler) {
  switch (scheduler.type) {
    case SchedulerType::kDdpm:
      return "ddpm";
    case SchedulerType::kDdim:
      return "ddim";
    case SchedulerType::kDpmSolverPlusPlus:
      return "dpmsolver++";
    case SchedulerType::kEuler:
      return "euler";
    case SchedulerType::kHeun:
      return "heun";
  }
  return "";
}

std::string StepTable(const std::vector<train::SamplingStep>& steps) {
  std::string text =
      fmt::format("{:>5} {:>6} {:>18} {:>7} {:>18} {:>7} {:>8} {:>14}\n", "step", "t", "range of x",
                  "std", "predicted x_0", "std", "change", "clipped");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const train::SamplingStep& step = steps[i];
    text +=
        fmt::format("{:>5} {:>6.4g} {:>18} {:>7.3f} {:>18} {:>7.3f} {:>8.3f} {:>7} {:>5.1f}%\n",
                    i + 1, step.timestep, fmt::format("{:.2f} .. {:.2f}", step.min, step.max),
                    step.std, fmt::format("{:.2f} .. {:.2f}", step.x_0_min, step.x_0_max),
                    step.x_0_std, step.x_0_change, step.n_clipped, 100.0 * step.clipped_share());
  }
  return text;
}

}  // namespace

SamplingInspection InspectSampling(const SamplingInspectionCase& subject) {
  SamplingInspection inspection = {.scheduler = train::SchedulerOf(subject.config)};
  if (inspection.scheduler) {
    inspection.reach = train::ActionReach(subject.normalizer, *inspection.scheduler);
  }
  const auto start = std::chrono::steady_clock::now();
  const auto [sample, n_chunks] =
      subject.dataset != nullptr ? SampleForData(subject) : SampleForEnv(subject);
  inspection.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  inspection.n_chunks = n_chunks;
  inspection.steps = sample.steps;
  if (subject.dataset != nullptr) {
    inspection.error = {.mean = sample.error,
                        .of_mean_action = sample.error_of_mean_action,
                        .by_step = sample.error_by_step};
  }
  AppendFindings(subject, sample, &inspection);
  return inspection;
}

std::string ToText(const SamplingInspection& inspection) {
  std::string text =
      fmt::format("{} action chunks for {}, sampled in {:.1f} s\n", inspection.n_chunks,
                  inspection.error ? "recorded observations"
                                   : "first observations of the env; the data set is not here",
                  inspection.seconds);
  if (inspection.scheduler) {
    text += fmt::format("{} with {} of {} steps\n", SamplerName(*inspection.scheduler),
                        inspection.steps.size(), inspection.scheduler->num_train_timesteps);
  }
  if (inspection.reach) text += inspection.reach->InWords() + "\n";
  text += inspection.steps.empty() ? "the policy reports no denoising steps\n"
                                   : StepTable(inspection.steps);
  if (inspection.error) {
    text += fmt::format("error of the chunks {:.4g}, {:.4g} with the mean action; by step {:.3g}\n",
                        inspection.error->mean, inspection.error->of_mean_action,
                        fmt::join(inspection.error->by_step, " "));
  }
  return text + "\n" + ToText(inspection.findings);
}

nlohmann::json ToJson(const SamplingInspection& inspection) {
  nlohmann::json json = ToJson(inspection.findings);
  json["n_chunks"] = inspection.n_chunks;
  json["seconds"] = inspection.seconds;
  json["steps"] = nlohmann::json::array();
  for (const train::SamplingStep& step : inspection.steps) {
    json["steps"].push_back({{"timestep", run::TimestepJson(step.timestep)},
                             {"min", step.min},
                             {"max", step.max},
                             {"mean", step.mean},
                             {"std", step.std},
                             {"x_0_min", step.x_0_min},
                             {"x_0_max", step.x_0_max},
                             {"x_0_std", step.x_0_std},
                             {"x_0_change", step.x_0_change},
                             {"n_clipped", step.n_clipped},
                             {"clipped_share", step.clipped_share()}});
  }
  json["error"] = nullptr;
  if (inspection.error) {
    json["error"] = {{"mean", inspection.error->mean},
                     {"of_mean_action", inspection.error->of_mean_action},
                     {"by_step", inspection.error->by_step}};
  }
  json["normalized_actions"] = nullptr;
  if (inspection.reach) {
    json["normalized_actions"] = {{"low", inspection.reach->low},
                                  {"high", inspection.reach->high},
                                  {"n_cut_dims", inspection.reach->n_cut}};
  }
  return json;
}

}  // namespace dp_bench::inspect
