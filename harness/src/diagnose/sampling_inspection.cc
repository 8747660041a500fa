#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "control/obs_history.h"
#include "core/clock.h"
#include "core/errors.h"
#include "diagnose/diagnosis.h"
#include "diagnose/policy_checks.h"
#include "diagnose/probe.h"
#include "planner/policy_planner.h"
#include "policy/stage_recorder.h"
#include "report/render.h"
#include "run/planning.h"

namespace dp_bench::diagnose {
namespace {

constexpr int kChunks = 8;

// A timestep of a diffusion is written as an integer; the time of another objective may be none.
nlohmann::json TimestepJson(double timestep) {
  const bool is_integer = std::trunc(timestep) == timestep && std::abs(timestep) < 1e9;
  return is_integer ? nlohmann::json(static_cast<std::int64_t>(timestep))
                    : nlohmann::json(timestep);
}

SamplingSample SampleForData(const SamplingInspectionCase& subject) {
  const std::vector<bool> all(subject.dataset->episode_ends().size(), true);
  const Probe probe(*subject.dataset, subject.policy, all, kChunks, /*n_batches=*/1);
  if (probe.size() == 0) throw DataError("the dataset has no sequence to sample for");
  return RecordSampling(subject.policy, subject.normalizer, probe);
}

// The first observations of the first test episodes.
std::vector<control::RecordedObs> ObserveEnv(const SamplingInspectionCase& subject) {
  const auto config = control::EnvRunnerConfig::ForALook(subject.config.Sub("env_runner"), kChunks);
  const PolicySpec& spec = subject.policy.spec();
  const rollout::EnvRunner runner(config, subject.make_env, spec.shape_meta, spec.horizons,
                                  /*output_dir=*/{});
  std::vector<control::RecordedObs> observed;
  for (int episode = 0; episode < kChunks; ++episode) {
    if (auto first = runner.FirstObservation(episode)) observed.push_back(std::move(*first));
  }
  if (observed.empty()) throw DataError("no episode of the env could be started");
  return observed;
}

SamplingSample SampleForEnv(const SamplingInspectionCase& subject) {
  const PolicySpec& spec = subject.policy.spec();
  const std::vector<control::RecordedObs> observed = ObserveEnv(subject);
  control::ObsBatch batch = control::MakeObsBatch(
      spec.shape_meta.obs, static_cast<int>(observed.size()), spec.horizons.n_obs_steps);
  std::vector<control::PlanRow> rows;
  for (const control::RecordedObs& one : observed) {
    control::CopyRow(one.obs, rows.size(), &batch);
    rows.push_back(one.row);
  }
  std::vector<float> actions(
      observed.size() *
      static_cast<std::size_t>(spec.horizons.n_action_steps * spec.shape_meta.action_dim()));
  train::SamplingTrace trace;
  {
    const policy::StageRecorder recorder(std::bind_front(&train::SamplingTrace::Note, &trace));
    planner::PolicyPlanner(subject.policy, torch::kCPU, static_cast<int>(rows.size()))
        .Plan(batch, rows, actions);
  }
  const bool is_finite =
      std::ranges::all_of(actions, [](float value) { return std::isfinite(value); });
  return {.n_chunks = std::ssize(observed), .steps = trace.steps(), .is_finite = is_finite};
}

}  // namespace

SamplingInspection InspectSampling(const SamplingInspectionCase& subject) {
  SamplingInspection inspection = {.scheduler = train::SchedulerOf(subject.config)};
  if (inspection.scheduler) {
    inspection.reach = train::ActionReach(subject.normalizer, *inspection.scheduler);
  }
  const auto start = std::chrono::steady_clock::now();
  inspection.sample = subject.dataset != nullptr ? SampleForData(subject) : SampleForEnv(subject);
  inspection.seconds = core::SecondsSince(start);
  inspection.findings = CheckSample(inspection.sample, subject.normalizer, inspection.scheduler);
  if (inspection.scheduler && inspection.scheduler->clip_sample) {
    inspection.findings.push_back(CheckFittedClipRange(subject.normalizer, *inspection.scheduler));
  }
  return inspection;
}

std::string ToText(const SamplingInspection& inspection) {
  nlohmann::json view = ToJson(inspection);
  view.update(TextView(inspection.findings));
  if (inspection.scheduler) {
    view["sampler"] = inspection.scheduler->type;
    view["n_steps"] = inspection.sample.steps.size();
    view["num_train_timesteps"] = inspection.scheduler->num_train_timesteps;
  }
  if (inspection.reach) view["reach"] = inspection.reach->InWords();
  for (std::size_t i = 0; i < view["steps"].size(); ++i) view["steps"][i]["number"] = i + 1;
  return report::Render("sampling.txt", view);
}

nlohmann::json ToJson(const SamplingInspection& inspection) {
  nlohmann::json json = ToJson(inspection.findings);
  json["n_chunks"] = inspection.sample.n_chunks;
  json["seconds"] = inspection.seconds;
  json["steps"] = nlohmann::json::array();
  for (const train::SamplingStep& step : inspection.sample.steps) {
    json["steps"].push_back({{"timestep", TimestepJson(step.timestep)},
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
  if (const auto& error = inspection.sample.error) {
    json["error"] = {{"mean", error->mean},
                     {"of_mean_action", error->of_mean_action},
                     {"by_step", error->by_step}};
  }
  json["normalized_actions"] = nullptr;
  if (inspection.reach) {
    json["normalized_actions"] = {{"low", inspection.reach->low},
                                  {"high", inspection.reach->high},
                                  {"n_cut_dims", inspection.reach->n_cut}};
  }
  return json;
}

}  // namespace dp_bench::diagnose
