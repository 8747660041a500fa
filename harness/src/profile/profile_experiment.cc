// Times are measured without the recorder, which slows small operators down. A few more repetitions
// with it give the list of operators. profile.txt.mustache makes the tables from the JSON.
#include "profile/profile_experiment.h"

#include <ATen/record_function.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/clock.h"
#include "core/machine.h"
#include "core/thread_pool.h"
#include "planner/scope_timer.h"
#include "policy/device.h"
#include "profile/advice.h"
#include "profile/machine_limits.h"
#include "profile/recorded_work.h"
#include "report/render.h"
#include "run/planning.h"
#include "task/training_rig.h"
#include "train/batches.h"
#include "train/step_memory.h"
#include "train/train_config.h"
#include "train/train_step.h"

namespace dp_bench::profile {
namespace {

using Json = nlohmann::json;

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

// Without the recorder, the mean time of a step and of each of its phases.
Json ProfileTraining(task::TrainingRig& rig, torch::Device device, int n_steps,
                     const MachineLimits& limits, std::vector<OpEvent>* events) {
  train::StepTimer timer(&core::SteadyTime, [device] { policy::Synchronize(device); });
  for (int i = 0; i < kWarmUp; ++i) rig.Step(&timer);
  timer.Reset();
  for (int i = 0; i < n_steps; ++i) rig.Step(&timer);
  const double step_s = timer.total() / n_steps;
  Json phases;
  for (const train::StepPhase phase : kPhases) {
    phases[train::NameOf(phase)] = 1e3 * (timer.seconds(phase) / n_steps);
  }
  const RecordedWork recorded = RecordWork(device, std::min(n_steps, kRecordedSteps),
                                           kTrainStepScope, events, [&] { rig.Step(&timer); });
  const std::int64_t batch_size = rig.loading().batch_size;
  Json json = WorkJson(recorded, recorded.Mean().flops, step_s, limits);
  json["batch_size"] = batch_size;
  json["steps"] = n_steps;
  json["step_ms"] = 1e3 * step_s;
  json["samples_per_second"] = static_cast<double>(batch_size) / step_s;
  json["phases_ms"] = std::move(phases);
  return json;
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

// Without the recorder, the latencies of whole chunks and of their stages: observation encoding,
// denoising step, ...
Json ProfileInference(Policy& policy, torch::Device device, const TensorMap& batch,
                      std::int64_t batch_size, const MachineLimits& limits,
                      std::vector<OpEvent>* events) {
  const TensorMap obs =
      train::ObservedSteps(Rows(batch, batch_size), policy.spec().horizons.n_obs_steps);
  const std::string scope = fmt::format("action chunk, batch {}", batch_size);
  const auto plan = [&] {
    RECORD_USER_SCOPE(scope);
    NoiseSource noise = train::BatchNoise(0, train::NoisePurpose::kSampling, 0, batch_size);
    policy.PredictAction(obs, noise).to(torch::kCPU);
  };
  for (int i = 0; i < kWarmUp; ++i) plan();

  run::LatencySummary chunk;
  std::map<std::string, run::LatencySummary> latencies;
  {
    const planner::ScopeTimer timer(device);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0;
         i < kMinChunks || (i < kMaxChunks && core::SecondsSince(start) < kSecondsOfChunks); ++i) {
      plan();
    }
    for (const auto& [name, seconds] : timer.seconds()) {
      (name == scope ? chunk : latencies[name]) = run::SummarizeLatency(seconds);
    }
  }
  const RecordedWork recorded = RecordWork(device, kRecordedChunks, scope, events, plan);
  Json json = WorkJson(recorded, CountFlop(device, plan), chunk.p50_s, limits);
  json["batch_size"] = batch_size;
  json["chunk"] = ToJson(chunk);
  json["stages"] = Json::object();
  for (const auto& [name, latency] : latencies) json["stages"][name] = ToJson(latency);
  const auto steps = latencies.find(planner::kDenoisingStepScope);
  json["denoising_steps"] =
      steps == latencies.end() ? 0.0 : static_cast<double>(steps->second.n) / chunk.n;
  return json;
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

Json ProfileMemory(const task::Experiment& experiment, const task::TrainingRig& rig) {
  const std::unique_ptr<Policy> policy = experiment.CreatePolicy();
  policy->SetNormalizer(experiment.NeutralNormalizer());
  const std::int64_t held = train::MeasureHeldMemory(policy->module(), experiment.config()).total();
  Json sizes = Json::array();  // empty for a batch size below 3
  for (const train::MemoryCheck& check :
       CheckMemory(*policy, rig.loading().batch_size, rig.training().mixed_precision)) {
    sizes.push_back({{"batch_size", check.measured.batch_size},
                     {"estimated", held + check.estimated.total()},
                     {"measured", held + check.measured.total()},
                     {"deviation", check.deviation()}});
  }
  return {{"held", held}, {"steps", sizes}};
}

TrainingFigures FiguresOf(const task::Experiment& experiment, const task::TrainingRig& rig,
                          const MachineLimits& limits, const Json& profile) {
  const Json& training = profile["training"];
  const auto share_of = [&](train::StepPhase phase) {
    return training["phases_ms"][train::NameOf(phase)].get<double>() /
           training["step_ms"].get<double>();
  };
  TrainingFigures figures = {
      .data_share = share_of(train::StepPhase::kDataWait),
      .fixed_share = share_of(train::StepPhase::kOptimizer) + share_of(train::StepPhase::kEma),
      .product_share = training["recorded"]["product_share"].get<double>(),
      .batch_size = rig.loading().batch_size,
      .num_workers = rig.loading().num_workers,
      .n_cores = core::ResolveThreadCount(0),
      .flops = training["flops"].get<double>(),
      .float32_limit = limits.float32_flops,
      .bfloat16_limit = limits.bfloat16_flops,
      .is_float32 = rig.training().mixed_precision == train::MixedPrecision::kNo};
  const Json& sizes = profile["memory"]["steps"];
  if (!sizes.empty() && experiment.device().is_cpu()) {
    figures.needed_bytes = sizes.back()["measured"].get<double>();
    figures.available_bytes = static_cast<double>(core::AvailableMemory());
  }
  return figures;
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

Json ProfileExperiment(const task::Experiment& experiment, const Dataset& dataset,
                       const ProfileOptions& options, std::unique_ptr<Policy> trained,
                       std::vector<OpEvent>* events) {
  const Config& config = experiment.config();
  const control::EnvRunnerConfig runner = experiment.runner();
  task::TrainingRig rig(experiment, dataset);
  const MachineLimits limits = MeasureMachineLimits(experiment.device());
  Json profile = {{"policy", config.Sub("policy").Get<std::string>("plugin")},
                  {"task", experiment.name()},
                  {"device", experiment.device().str()},
                  {"precision", train::PrecisionName(rig.training().mixed_precision)},
                  {"limits",
                   {{"threads", limits.n_threads},
                    {"float32_flops", limits.float32_flops},
                    {"bfloat16_flops", limits.bfloat16_flops}}},
                  {"counted", kCountedProducts},
                  {"inference", Json::array()}};
  profile["training"] = ProfileTraining(rig, experiment.device(), options.n_steps, limits, events);

  data::HostBatch host;
  rig.NextBatch(&host);
  const Batch batch = train::ToBatch(host, experiment.spec().shape_meta, experiment.device());
  Policy& policy = trained ? *trained : rig.policy();
  policy.module().eval();
  policy.WeightsChanged();
  for (const std::int64_t rows : {1, runner.micro_batch}) {
    if (!profile["inference"].empty() && rows == 1) continue;
    profile["inference"].push_back(
        ProfileInference(policy, experiment.device(), batch.obs, rows, limits, events));
  }
  profile["memory"] = ProfileMemory(experiment, rig);
  profile["advice"] = AdviseTraining(FiguresOf(experiment, rig, limits, profile));
  return profile;
}

std::string ProfileText(Json profile, int n_listed) {
  Json& training = profile["training"];
  SetListed(n_listed, &training);
  training["phases"] = Json::array();
  for (const train::StepPhase phase : kPhases) {
    const auto ms = training["phases_ms"][train::NameOf(phase)].get<double>();
    training["phases"].push_back({{"name", train::NameOf(phase)},
                                  {"ms", ms},
                                  {"share", ms / training["step_ms"].get<double>()}});
  }
  for (Json& inference : profile["inference"]) {
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
  return report::Render("profile.txt", profile);
}

}  // namespace dp_bench::profile
