// Times are measured without the recorder, which slows small operators down. A few more repetitions
// with it give the list of operators. profile.txt.mustache makes the tables from the JSON.
#include "profile/profile_experiment.h"

#include <ATen/record_function.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/clock.h"
#include "core/machine.h"
#include "core/thread_pool.h"
#include "planner/scope_timer.h"
#include "policy/device.h"
#include "report/render.h"
#include "rollout/env_runner.h"
#include "task/training_rig.h"
#include "train/batches.h"
#include "train/fit_normalizer.h"
#include "train/train_config.h"

namespace dp_bench::profile {
namespace {

constexpr int kWarmUp = 2;
constexpr int kRecordedSteps = 5;
constexpr int kRecordedChunks = 3;
constexpr int kMinChunks = 5;
constexpr int kMaxChunks = 50;
constexpr double kSecondsOfChunks = 3.0;
constexpr const char* kTrainStepScope = "train step";
constexpr std::array kPhases = {train::StepPhase::kDataWait, train::StepPhase::kForward,
                                train::StepPhase::kBackward, train::StepPhase::kOptimizer,
                                train::StepPhase::kEma};

TrainingProfile ProfileTraining(task::TrainingRig& rig, torch::Device device, int n_steps,
                                std::vector<OpEvent>* events) {
  train::StepTimer timer(&core::SteadyTime, [device] { policy::Synchronize(device); });
  for (int i = 0; i < kWarmUp; ++i) rig.Step(&timer);
  timer.Reset();
  for (int i = 0; i < n_steps; ++i) rig.Step(&timer);
  TrainingProfile profile = {.batch_size = rig.loading().batch_size,
                             .n_steps = n_steps,
                             .step_s = timer.total() / n_steps};
  for (const train::StepPhase phase : kPhases) {
    profile.phases.emplace_back(train::NameOf(phase), timer.seconds(phase) / n_steps);
  }
  profile.recorded = RecordWork(device, std::min(n_steps, kRecordedSteps), kTrainStepScope, events,
                                [&] { rig.Step(&timer); });
  return profile;
}

// Recorded observations, repeated if there are not enough.
TensorMap Rows(const TensorMap& obs, std::int64_t n_rows) {
  TensorMap rows;
  for (const auto& [key, tensor] : obs) {
    const torch::Tensor places =
        torch::arange(n_rows, torch::TensorOptions(tensor.device()).dtype(torch::kInt64))
            .remainder(tensor.size(0));
    rows.emplace(key, tensor.index_select(0, places));
  }
  return rows;
}

InferenceProfile ProfileInference(Policy& policy, torch::Device device, const TensorMap& batch,
                                  std::int64_t batch_size, std::vector<OpEvent>* events) {
  const TensorMap obs =
      train::ObservedSteps(Rows(batch, batch_size), policy.spec().horizons.n_obs_steps);
  const std::string scope = fmt::format("action chunk, batch {}", batch_size);
  const auto plan = [&] {
    RECORD_USER_SCOPE(scope);
    NoiseSource noise = train::BatchNoise(0, train::NoisePurpose::kSampling, 0, batch_size);
    policy.PredictAction(obs, noise).to(torch::kCPU);
  };
  for (int i = 0; i < kWarmUp; ++i) plan();

  InferenceProfile profile = {.batch_size = batch_size};
  {
    const planner::ScopeTimer timer(device);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0;
         i < kMinChunks || (i < kMaxChunks && core::SecondsSince(start) < kSecondsOfChunks); ++i) {
      plan();
    }
    for (const auto& [name, seconds] : timer.seconds()) {
      (name == scope ? profile.chunk : profile.stages[name]) = run::SummarizeLatency(seconds);
    }
  }
  const auto steps = profile.stages.find(planner::kDenoisingStepScope);
  if (steps != profile.stages.end()) {
    profile.steps_per_chunk = static_cast<double>(steps->second.n) / profile.chunk.n;
  }
  profile.recorded = RecordWork(device, kRecordedChunks, scope, events, plan);
  profile.flop = CountFlop(device, plan);
  return profile;
}

// The estimate comes from a line through two small batches; the measurement is next to it.
std::vector<train::MemoryCheck> CheckMemory(Policy& policy, std::int64_t batch_size,
                                            train::MixedPrecision precision) {
  const std::int64_t small = std::max<std::int64_t>(1, batch_size / 8);
  const std::int64_t larger = std::max(small + 1, batch_size / 4);
  const train::StepMemory a = train::MeasureStepMemory(policy, small, precision);
  const train::StepMemory b = train::MeasureStepMemory(policy, larger, precision);
  std::vector<train::MemoryCheck> checks;
  for (const std::int64_t size : {batch_size / 2, batch_size}) {
    if (size <= larger) continue;
    checks.push_back({.estimated = train::EstimateStepMemory(a, b, size),
                      .measured = train::MeasureStepMemory(policy, size, precision)});
  }
  return checks;
}

void ProfileMemory(const task::Experiment& experiment, const task::TrainingRig& rig,
                   ExperimentProfile* profile) {
  const std::unique_ptr<Policy> policy = experiment.CreatePolicy();
  policy->SetNormalizer(train::NeutralNormalizer(
      experiment.spec().shape_meta,
      train::NormalizerConfig::FromConfig(experiment.config().Sub("normalizer"))));
  profile->held = train::MeasureHeldMemory(policy->module(), experiment.config());
  profile->memory = CheckMemory(*policy, rig.loading().batch_size, rig.training().mixed_precision);
}

double ShareOf(const TrainingProfile& training, train::StepPhase phase) {
  return training.phases.at(static_cast<std::size_t>(phase)).second / training.step_s;
}

TrainingFigures FiguresOf(const task::Experiment& experiment, const task::TrainingRig& rig,
                          const ExperimentProfile& profile) {
  const TrainingProfile& training = profile.training;
  const WorkTotal work = training.recorded.Mean();
  TrainingFigures figures = {
      .data_share = ShareOf(training, train::StepPhase::kDataWait),
      .fixed_share = ShareOf(training, train::StepPhase::kOptimizer) +
                     ShareOf(training, train::StepPhase::kEma),
      .product_share = work.product_us / work.self_us,
      .batch_size = training.batch_size,
      .num_workers = rig.loading().num_workers,
      .n_cores = core::ResolveThreadCount(0),
      .flops = work.flops / training.step_s,
      .float32_limit = profile.limits.float32_flops,
      .bfloat16_limit = profile.limits.bfloat16_flops,
      .is_float32 = rig.training().mixed_precision == train::MixedPrecision::kNo};
  if (!profile.memory.empty() && experiment.device().is_cpu()) {
    const train::StepMemory& step = profile.memory.back().measured;
    figures.needed_bytes = static_cast<double>(profile.held.total() + step.total());
    figures.available_bytes = static_cast<double>(core::AvailableMemory());
  }
  return figures;
}

using Json = nlohmann::json;

Json OpJson(const OpTotal& op, double all_us) {
  return {{"name", op.name},
          {"kind", NameOf(op.kind)},
          {"calls", op.n_calls},
          {"self_ms", 1e-3 * op.self_us},
          {"total_ms", 1e-3 * op.total_us},
          {"share", op.self_us / all_us},
          {"flop", op.flops},
          {"flops", op.product_us > 0.0 ? Json(1e6 * op.flops / op.product_us) : Json()}};
}

// What was recorded, and how close it comes to the machine's limits if a repetition takes
// `seconds` without the recorder and has `flop` operations.
Json WorkJson(const RecordedWork& recorded, double flop, double seconds,
              const MachineLimits& limits) {
  const WorkTotal mean = recorded.Mean();
  const double all_us = SumOf(recorded.ops).self_us;
  Json ops = Json::array();
  for (const OpTotal& op : recorded.ops) ops.push_back(OpJson(op, all_us));
  return {{"flops", flop / seconds},
          {"flops_share", flop / seconds / limits.float32_flops},
          {"recorded",
           {{"repetitions", recorded.n_repetitions},
            {"ms_each", 1e-3 * mean.self_us},
            {"flop_each", flop},
            {"product_share", mean.product_us / mean.self_us},
            {"product_flops", mean.product_us > 0.0 ? 1e6 * mean.flops / mean.product_us : 0.0},
            {"operators", ops}}}};
}

Json TrainingJson(const TrainingProfile& training, const MachineLimits& limits) {
  Json json = WorkJson(training.recorded, training.recorded.Mean().flops, training.step_s, limits);
  json["batch_size"] = training.batch_size;
  json["steps"] = training.n_steps;
  json["step_ms"] = 1e3 * training.step_s;
  json["samples_per_second"] = static_cast<double>(training.batch_size) / training.step_s;
  for (const auto& [name, seconds] : training.phases) json["phases_ms"][name] = 1e3 * seconds;
  return json;
}

Json InferenceJson(const InferenceProfile& inference, const MachineLimits& limits) {
  Json json = WorkJson(inference.recorded, inference.flop, inference.chunk.p50_s, limits);
  json["batch_size"] = inference.batch_size;
  json["chunk"] = ToJson(inference.chunk);
  json["stages"] = Json::object();
  for (const auto& [name, latency] : inference.stages) json["stages"][name] = ToJson(latency);
  json["denoising_steps"] = inference.steps_per_chunk;
  return json;
}

Json MemoryJson(const ExperimentProfile& profile) {
  const std::int64_t held = profile.held.total();
  Json sizes = Json::array();
  for (const train::MemoryCheck& check : profile.memory) {
    sizes.push_back({{"batch_size", check.measured.batch_size},
                     {"estimated", held + check.estimated.total()},
                     {"measured", held + check.measured.total()},
                     {"deviation", check.deviation()}});
  }
  return {{"held", held}, {"steps", sizes}};
}

// The operators as the text lists them, per repetition.
void SetListed(int n_listed, Json* work) {
  Json& recorded = (*work)["recorded"];
  const auto n = recorded["repetitions"].get<double>();
  Json listed = Json::array();
  for (Json op : recorded["operators"]) {
    if (std::ssize(listed) == n_listed) break;
    if (op["kind"] == "scope")
      op["name"] = fmt::format("[{}] itself", op["name"].get<std::string>());
    for (const char* key : {"calls", "self_ms"}) op[key] = op[key].get<double>() / n;
    listed.push_back(std::move(op));
  }
  recorded["operators"] = std::move(listed);
}

}  // namespace

ExperimentProfile ProfileExperiment(const task::Experiment& experiment, const Dataset& dataset,
                                    const ProfileOptions& options,
                                    std::unique_ptr<Policy> trained) {
  const Config& config = experiment.config();
  const auto runner = control::EnvRunnerConfig::FromConfig(config.Sub("env_runner"));
  task::TrainingRig rig(experiment, dataset);
  ExperimentProfile profile = {.policy = config.Sub("policy").Get<std::string>("plugin"),
                               .task = experiment.name(),
                               .device = experiment.device().str(),
                               .precision = train::PrecisionName(rig.training().mixed_precision),
                               .limits = MeasureMachineLimits(experiment.device())};
  profile.training = ProfileTraining(rig, experiment.device(), options.n_steps, &profile.events);

  data::HostBatch host;
  rig.NextBatch(&host);
  const Batch batch = train::ToBatch(host, experiment.spec().shape_meta, experiment.device());
  Policy& policy = trained ? *trained : rig.policy();
  policy.module().eval();
  policy.WeightsChanged();
  for (const std::int64_t rows : {1, runner.micro_batch}) {
    if (!profile.inference.empty() && rows == 1) continue;
    profile.inference.push_back(
        ProfileInference(policy, experiment.device(), batch.obs, rows, &profile.events));
  }
  ProfileMemory(experiment, rig, &profile);
  profile.advice = AdviseTraining(FiguresOf(experiment, rig, profile));
  return profile;
}

std::string ToText(const ExperimentProfile& profile, int n_listed) {
  Json view = ToJson(profile);
  SetListed(n_listed, &view["training"]);
  view["training"]["phases"] = Json::array();
  for (const auto& [name, seconds] : profile.training.phases) {
    view["training"]["phases"].push_back(
        {{"name", name}, {"ms", 1e3 * seconds}, {"share", seconds / profile.training.step_s}});
  }
  for (Json& inference : view["inference"]) {
    SetListed(n_listed, &inference);
    inference["rows"] = Json::array({inference["chunk"]});
    inference["rows"][0]["name"] = "whole chunk";
    for (const auto& [name, latency] : inference["stages"].items()) {
      inference["rows"].push_back(latency);
      inference["rows"].back()["name"] =
          name == planner::kDenoisingStepScope
              ? fmt::format("{} ({:g} x)", name, inference["denoising_steps"].get<double>())
              : name;
    }
  }
  return report::Render("profile.txt", view);
}

nlohmann::json ToJson(const ExperimentProfile& profile) {
  const MachineLimits& limits = profile.limits;
  Json inference = Json::array();
  for (const InferenceProfile& each : profile.inference) {
    inference.push_back(InferenceJson(each, limits));
  }
  Json advice = Json::array();
  for (const Advice& each : profile.advice) {
    advice.push_back({{"key", each.key}, {"value", each.value}, {"reason", each.reason}});
  }
  return {{"policy", profile.policy},
          {"task", profile.task},
          {"device", profile.device},
          {"precision", profile.precision},
          {"limits",
           {{"threads", limits.n_threads},
            {"float32_flops", limits.float32_flops},
            {"bfloat16_flops", limits.bfloat16_flops}}},
          {"counted", kCountedProducts},
          {"training", TrainingJson(profile.training, limits)},
          {"inference", inference},
          {"memory", MemoryJson(profile)},
          {"advice", advice}};
}

}  // namespace dp_bench::profile
