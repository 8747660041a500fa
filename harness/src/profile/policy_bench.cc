#include "profile/policy_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/clock.h"
#include "core/communicator.h"
#include "core/median.h"
#include "planner/create_from_checkpoint.h"
#include "planner/scope_timer.h"
#include "policy/device.h"
#include "policy/stage_recorder.h"
#include "profile/machine_limits.h"
#include "profile/recorded_work.h"
#include "train/batches.h"
#include "train/step_memory.h"
#include "train/train_config.h"
#include "train/train_step.h"

namespace dp_bench::profile {
namespace {

using Json = nlohmann::json;

constexpr int kWarmUpCalls = 3;  // a GPU's graph is recorded by the second plan
constexpr int kLeastCalls = 3;   // of a round

// The time of a call: its mean in each round, and their median.
Json TimeRounds(const PolicyBenchOptions& options, const std::function<void()>& call) {
  for (int i = 0; i < kWarmUpCalls; ++i) call();
  std::vector<double> rounds;
  for (int round = 0; round < options.n_rounds; ++round) {
    const double start = core::SteadyTime();
    int n_calls = 0;
    while (n_calls < kLeastCalls || core::SteadyTime() - start < options.seconds) {
      call();
      ++n_calls;
    }
    rounds.push_back((core::SteadyTime() - start) / n_calls);
  }
  Json rounds_ms = Json::array();
  for (const double seconds : rounds) rounds_ms.push_back(1e3 * seconds);
  return {{"ms", 1e3 * core::Median(rounds)}, {"rounds_ms", rounds_ms}};
}

std::int64_t CountDenoisingSteps(c10::Device device, const std::function<void()>& call) {
  const policy::StageRecorder one_by_one;  // a graph would run no scopes
  const planner::ScopeTimer timer(device);
  call();
  const auto steps = timer.seconds().find(planner::kDenoisingStepScope);
  return steps == timer.seconds().end() ? 1 : std::ssize(steps->second);
}

// float32 can multiply what bf16 and int8 hold, and is faster where the processor has no
// instructions for these.
double RateOf(const MachineLimits& limits, const std::string& precision) {
  const double own = precision == "int8"   ? limits.int8_flops
                     : precision == "bf16" ? limits.bfloat16_flops
                                           : 0.0;
  return std::max(own, limits.float32_flops);
}

struct WeightSize {
  const char* precision;
  std::int64_t n_bytes;  // of a number
};

WeightSize SizeOf(WeightFormat format) {
  constexpr std::array kSizes = {WeightSize{"float32", 4}, WeightSize{"bf16", 2},
                                 WeightSize{"int8", 1}};
  return kSizes.at(static_cast<std::size_t>(format));
}

class ChunkBench {
 public:
  ChunkBench(const task::Experiment& experiment, const MachineLimits& limits)
      : device_(experiment.device()), limits_(limits), policy_(experiment.CreatePolicy()) {
    policy_->module().to(device_);
    policy_->SetNormalizer(experiment.NeutralNormalizer());
    policy_->module().eval();
    const WeightSize size = SizeOf(planner::ReadWeightFormat(experiment.config().Sub("policy")));
    precision_ = size.precision;
    n_bytes_ = train::NumParameters(policy_->module()) * size.n_bytes;
    read_rate_ = MeasureReadRate(device_, n_bytes_);
  }

  Json Measure(std::int64_t batch_size, const PolicyBenchOptions& options) {
    data::HostBatch host = train::SyntheticBatch(policy_->spec(), batch_size);
    const Batch batch = train::ToBatch(host, policy_->spec().shape_meta, device_);
    const std::function<void()> plan = [&] {
      NoiseSource noise =
          train::BatchNoise(0, train::NoisePurpose::kSampling, n_plans_++, batch_size);
      policy_->PredictAction(batch.obs, noise).to(torch::kCPU);
    };
    Json row = TimeRounds(options, plan);
    const double flop = CountFlop(device_, plan);
    const double weight_bytes =
        static_cast<double>(n_bytes_) * static_cast<double>(CountDenoisingSteps(device_, plan));
    row["work"] = "action chunk";
    row["batch_size"] = batch_size;
    row["precision"] = precision_;
    row["flop"] = flop;
    row["weight_bytes"] = weight_bytes;
    row["limit_ms"] = 1e3 * std::max(flop / RateOf(limits_, precision_), weight_bytes / read_rate_);
    return row;
  }

 private:
  c10::Device device_;
  const MachineLimits& limits_;
  std::unique_ptr<Policy> policy_;
  std::string precision_;
  std::int64_t n_bytes_ = 0;  // of the weights, in the format of plans
  double read_rate_ = 0.0;    // [bytes/s]
  std::uint64_t n_plans_ = 0;
};

Json MeasureTraining(const task::Experiment& experiment, const MachineLimits& limits,
                     const PolicyBenchOptions& options) {
  const std::int64_t batch_size = experiment.loading().batch_size;
  core::SingleProcess alone;
  train::DataParallel parallel(alone);
  std::optional<train::GradScalerState> grad_scaler;
  train::TrainStep step({.config = experiment.config(),
                         .create_policy = [&] { return experiment.CreatePolicy(); },
                         .device = experiment.device(),
                         .parallel = parallel,
                         .grad_scaler = grad_scaler});
  step.policy().SetNormalizer(experiment.NeutralNormalizer());
  step.policy().module().train();
  step.StartGradScaler();
  data::HostBatch host = train::SyntheticBatch(step.policy(), batch_size);
  train::StepTimer timer(&core::SteadyTime);
  train::StepPlace place = {.window_rows = batch_size, .lr = 1e-4};
  const std::function<void()> take_step = [&] {
    step.Run(host, place, timer);
    policy::Synchronize(experiment.device());
    ++place.global_step;
  };
  const std::string precision = train::PrecisionName(step.config().mixed_precision);
  Json row = TimeRounds(options, take_step);
  const double flop = CountFlop(experiment.device(), take_step);
  row["work"] = "training step";
  row["batch_size"] = batch_size;
  row["precision"] = precision;
  row["flop"] = flop;
  row["weight_bytes"] = 0.0;
  row["limit_ms"] = 1e3 * (flop / RateOf(limits, precision));
  return row;
}

}  // namespace

Json BenchPolicy(const task::Experiment& experiment, const PolicyBenchOptions& options) {
  const std::int64_t n_parameters = train::NumParameters(experiment.CreatePolicy()->module());
  const MachineLimits limits = MeasureMachineLimits(experiment.device());
  Json rows = Json::array();
  if (!options.chunks.empty()) {
    ChunkBench chunks(experiment, limits);
    for (const std::int64_t batch_size : options.chunks) {
      rows.push_back(chunks.Measure(batch_size, options));
    }
  }
  if (options.has_training) rows.push_back(MeasureTraining(experiment, limits, options));
  return {{"policy", experiment.config().Sub("policy").Get<std::string>("plugin")},
          {"task", experiment.name()},
          {"device", experiment.device().str()},
          {"parameters", n_parameters},
          {"threads", limits.n_threads},
          {"float32_flops", limits.float32_flops},
          {"bfloat16_flops", limits.bfloat16_flops},
          {"int8_flops", limits.int8_flops},
          {"rows", rows}};
}

std::string BenchText(const Json& bench) {
  const auto number = [](const Json& row, const char* key) { return row[key].get<double>(); };
  const auto word = [](const Json& row, const char* key) { return row[key].get<std::string>(); };
  std::string text = fmt::format(
      "{} on {}: {:.1f} M parameters, {}, {} threads\n"
      "products of a matrix: {:.0f} GFLOP/s in float32, {:.0f} in bf16, {:.0f} in int8\n\n"
      "{:<16}{:>6} {:<8}{:>10}{:>16}{:>10}{:>12}{:>10}{:>8}\n",
      word(bench, "policy"), word(bench, "task"), 1e-6 * number(bench, "parameters"),
      word(bench, "device"), bench["threads"].get<int>(), 1e-9 * number(bench, "float32_flops"),
      1e-9 * number(bench, "bfloat16_flops"), 1e-9 * number(bench, "int8_flops"), "", "batch", "",
      "ms", "of rounds", "GFLOP", "weights", "limit", "share");
  for (const Json& row : bench["rows"]) {
    const auto [least, most] = std::ranges::minmax(row["rounds_ms"].get<std::vector<double>>());
    const double ms = number(row, "ms");
    const double weight_bytes = number(row, "weight_bytes");
    const double limit_ms = number(row, "limit_ms");
    text += fmt::format(
        "{:<16}{:>6} {:<8}{:>10.2f}{:>16}{:>10.2f}{:>12}{:>10.2f}{:>6.0f} %\n", word(row, "work"),
        row["batch_size"].get<std::int64_t>(), word(row, "precision"), ms,
        fmt::format("{:.2f}-{:.2f}", least, most), 1e-9 * number(row, "flop"),
        weight_bytes > 0.0 ? fmt::format("{:.0f} MiB", weight_bytes / (1 << 20)) : "", limit_ms,
        100.0 * limit_ms / ms);
  }
  return text;
}

}  // namespace dp_bench::profile
