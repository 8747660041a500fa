#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "diagnose/policy_checks.h"
#include "policy/stage_recorder.h"
#include "train/batches.h"
#include "train/clip_reach.h"

namespace dp_bench::diagnose {
namespace {

using torch::Tensor;

constexpr double kExploded = 1e3;
constexpr const char* kNoScheduler =
    "the policy has no noise scheduler, or another objective than diffusion";
constexpr const char* kPredictionNames[] = {"epsilon", "sample", "v_prediction"};

double Double(const Tensor& scalar) { return scalar.item<double>(); }

// Mean square error divided by the error of the best constant. It uses the middle half of the
// timesteps, where noise, x_0 and velocity differ most.
double RelativeError(const ProcessSample& sample, const Tensor& target, int n_timesteps) {
  const Tensor is_middle =
      sample.timesteps.ge(n_timesteps / 4).logical_and(sample.timesteps.lt(3 * n_timesteps / 4));
  const Tensor rows = is_middle.nonzero().flatten();
  const Tensor chosen = target.index_select(0, rows);
  const Tensor error = (sample.prediction.index_select(0, rows) - chosen).square().mean();
  return Double(error) / Double(chosen.var(/*unbiased=*/false));
}

double RelativeErrorAs(const ProcessSample& sample, const NoiseScheduler& scheduler,
                       PredictionType type) {
  NoiseSchedulerConfig config = scheduler.config();
  config.prediction_type = type;
  const Tensor target = NoiseScheduler(config).Target(sample.x_0, sample.noise, sample.timesteps);
  return RelativeError(sample, target, config.num_train_timesteps);
}

TensorMap PermutedRows(const TensorMap& obs) {
  TensorMap permuted;
  for (const auto& [name, values] : obs) permuted[name] = values.roll(1, 0);
  return permuted;
}

// Of the predicted x_0.
double LargestOf(const train::SamplingStep& step) {
  return std::max(std::abs(step.x_0_min), std::abs(step.x_0_max));
}

std::string Describe(const std::vector<train::SamplingStep>& steps) {
  std::string text;
  for (const train::SamplingStep& step : steps) {
    text += fmt::format("{}{:.2f}/{:.2f}/{:.0f}%", text.empty() ? "" : " ", step.std,
                        LargestOf(step), 100.0 * step.clipped_share());
  }
  return "std of x_t / largest predicted x_0 / clipped, by step: " + text;
}

double ErrorOf(const SamplingCase& sampling, const std::vector<std::string>& overrides) {
  const auto variant = sampling.make_variant(overrides);
  return RecordSampling(*variant, sampling.normalizer, sampling.probe).error->mean;
}

std::string Scheduler(const char* key, const std::string& value) {
  return fmt::format("policy.params.noise_scheduler.{}={}", key, value);
}

// The second half of the steps, where little noise is left.
std::vector<train::SamplingStep> LateSteps(const std::vector<train::SamplingStep>& steps) {
  return {steps.begin() + std::ssize(steps) / 2, steps.end()};
}

// The share of the recorded values at the clip range: closed grippers and the like, whose
// predictions are often slightly beyond it.
double ShareAtRange(const Tensor& recorded, double range) {
  if (!recorded.defined() || recorded.numel() == 0) return 0.0;
  return Double(recorded.abs().ge(0.98 * range).to(torch::kFloat64).mean());
}

Finding CheckManyClipped(const SamplingSample& sample, double range) {
  constexpr double kTooMany = 0.2;
  const double late = ClippedInAll(LateSteps(sample.steps)).clipped_share();
  const double at_range = ShareAtRange(sample.recorded, range);
  std::string evidence = fmt::format(
      "{:.2g} % of the values in the second half of the steps, {:.2g} % in all, at +-{:g}",
      100.0 * late, 100.0 * ClippedInAll(sample.steps).clipped_share(), range);
  if (sample.recorded.defined()) {
    evidence += fmt::format("; {:.2g} % of the recorded values lie there", 100.0 * at_range);
  }
  return Decide("sampling.many_clipped", late > kTooMany + at_range, evidence);
}

Finding CheckFewClipped(const SamplingSample& sample, const Normalizer& normalizer,
                        const NoiseSchedulerConfig& scheduler) {
  constexpr double kHardlyAny = 1e-3;
  constexpr double kWide = 1.5;  // times the reach of the actions
  const auto reach = train::ActionReach(normalizer, scheduler);
  Finding hypothesis = Hypothesis("sampling.clip_range_wide");
  if (!reach) return LeaveOpen(hypothesis, "the normalizer has no statistics of the actions");
  hypothesis.advice = fmt::format(
      "nothing, if the actions are good; a range of {:.2g}, which the actions need, also limits "
      "errors of the first steps",
      std::max(reach->largest(), 0.1));
  const train::SamplingStep all = ClippedInAll(sample.steps);
  const bool is_hardly_any = all.clipped_share() < kHardlyAny;
  const bool is_wide = scheduler.clip_sample_range > kWide * reach->largest();
  return Decide(hypothesis, is_hardly_any && is_wide, "{} of {} values clipped{}; {}",
                all.n_clipped, all.n_values,
                is_hardly_any && !is_wide ? ", as a trained policy should: keep the range" : "",
                reach->InWords());
}

Finding CheckDivergence(const SamplingSample& sample,
                        const std::optional<NoiseSchedulerConfig>& scheduler) {
  constexpr const char* kId = "sampling.out_of_range";
  if (!sample.is_finite) return Decide(kId, true, "actions are NaN or Inf");
  if (sample.steps.empty()) return LeaveOpen(kId, "the policy reports no denoising steps");
  if (!scheduler) return LeaveOpen(kId, kNoScheduler);
  const double bound = 3.0 * std::max(1.0, scheduler->clip_sample_range);
  const bool is_fault = std::ranges::any_of(
      sample.steps, [&](const train::SamplingStep& step) { return !(LargestOf(step) <= bound); });
  return Decide(kId, is_fault, Describe(sample.steps));
}

Finding CheckActionError(const ChunkError& error) {
  return Decide(
      "sampling.no_better_than_mean", !(error.mean < 0.8 * error.of_mean_action),
      "mean square error {:.4g}, {:.4g} with the mean action; by step of the chunk: {:.3g}",
      error.mean, error.of_mean_action, fmt::join(error.by_step, " "));
}

Finding CheckIsTrained(const ProcessSample& sample, const NoiseScheduler& scheduler) {
  const Tensor target = scheduler.Target(sample.x_0, sample.noise, sample.timesteps);
  const double error = RelativeError(sample, target, scheduler.config().num_train_timesteps);
  return Decide("weights.untrained", !(error < 0.9), "error {:.3g} times that of the best constant",
                error);
}

Finding CheckPredictionType(const ProcessSample& sample, const NoiseScheduler& scheduler) {
  std::array<double, 3> errors = {};
  for (std::size_t i = 0; i < errors.size(); ++i) {
    errors[i] = RelativeErrorAs(sample, scheduler, static_cast<PredictionType>(i));
  }
  const auto configured = static_cast<std::size_t>(scheduler.config().prediction_type);
  const auto best = static_cast<std::size_t>(std::ranges::min_element(errors) - errors.begin());
  const bool is_fault = errors[configured] > 3.0 * errors[best] && errors[best] < 0.9;
  return Decide("weights.prediction_type", is_fault,
                "error as epsilon {:.3g}, sample {:.3g}, v_prediction {:.3g} times that of a "
                "constant; the config says {}",
                errors[0], errors[1], errors[2], kPredictionNames[configured]);
}

Finding CheckObsMatter(const SamplingCase& sampling, double error) {
  const double permuted =
      RecordSampling(sampling.policy, sampling.normalizer, sampling.probe, /*is_permuted=*/true)
          .error->mean;
  return Decide("sampling.observations_ignored", !(permuted > 1.1 * error),
                "mean square error {:.4g}, {:.4g} with observations of other rows", error,
                permuted);
}

Finding CheckStepCount(const SamplingCase& sampling, double error) {
  if (!sampling.scheduler) return LeaveOpen("sampling.too_few_steps", kNoScheduler);
  const int n_most = sampling.scheduler->most_inference_steps();
  const int n_more = std::min(n_most, std::max(20, 4 * sampling.scheduler->num_inference_steps));
  const double more = ErrorOf(sampling, {Scheduler("num_inference_steps", std::to_string(n_more))});
  return Decide("sampling.too_few_steps", error > 1.5 * more,
                "mean square error {:.4g} with {} steps, {:.4g} with {}", error,
                sampling.scheduler->num_inference_steps, more, n_more);
}

Finding CompareVariants(const SamplingCase& sampling, double error) {
  if (!sampling.scheduler) return LeaveOpen("sampling.variant", kNoScheduler);
  const bool is_ddim = sampling.scheduler->type == "ddim";
  const std::string steps = std::to_string(sampling.scheduler->num_train_timesteps);
  const double clipped_otherwise = ErrorOf(
      sampling, {Scheduler("clip_sample", sampling.scheduler->clip_sample ? "false" : "true")});
  const double other_type =
      is_ddim
          ? ErrorOf(sampling, {Scheduler("type", "ddpm"), Scheduler("num_inference_steps", steps)})
          : ErrorOf(sampling, {Scheduler("type", "ddim"), Scheduler("num_inference_steps", "10")});
  const double best = std::min(clipped_otherwise, other_type);
  return Decide("sampling.variant", error > 1.5 * best,
                "mean square error {:.4g} as configured, {:.4g} {} clipping, {:.4g} with {}", error,
                clipped_otherwise, sampling.scheduler->clip_sample ? "without" : "with", other_type,
                is_ddim ? "DDPM and all steps" : "DDIM and 10 steps");
}

}  // namespace

Finding CheckWeights(const torch::nn::Module& module) {
  std::vector<std::string> found;
  double largest = 0.0;
  for (const auto& parameter : module.named_parameters()) {
    const Tensor& values = parameter.value();
    const double bound = Double(values.detach().abs().max());
    largest = std::max(largest, bound);
    if (!std::isfinite(bound)) {
      found.push_back(parameter.key() + " is not finite");
    } else if (bound > kExploded) {
      found.push_back(fmt::format("{} reaches {:.3g}", parameter.key(), bound));
    } else if (bound == 0.0 && values.dim() > 1) {
      found.push_back(parameter.key() + " is all 0");
    }
  }
  return Decide("weights.broken", !found.empty(),
                found.empty()
                    ? fmt::format("largest value {:.3g}", largest)
                    : fmt::format("{} of the parameters, first: {}", found.size(), found.front()));
}

Finding CheckAveragedWeights(Policy& ema, Policy& model, const Probe& probe) {
  const double averaged = RecordLosses(ema, probe).mean_loss();
  const double latest = RecordLosses(model, probe).mean_loss();
  return Decide("weights.ema_lags", !(averaged <= 2.0 * latest),
                "loss {:.4g} averaged, {:.4g} latest", averaged, latest);
}

Findings CheckTrainedFor(const ProcessSample& sample, const NoiseScheduler& scheduler) {
  return {CheckIsTrained(sample, scheduler), CheckPredictionType(sample, scheduler)};
}

SamplingSample RecordSampling(Policy& policy, const Normalizer& normalizer, const Probe& probe,
                              bool is_permuted) {
  policy.WeightsChanged();
  const Batch& batch = probe.batch(0);
  const Horizons& horizons = policy.spec().horizons;
  NoiseSource noise = probe.Noise(0);
  train::SamplingTrace trace;
  Tensor action;
  {
    const policy::StageRecorder recorder(std::bind_front(&train::SamplingTrace::Note, &trace));
    const TensorMap obs = train::ObservedSteps(batch.obs, horizons.n_obs_steps);
    action = policy.PredictAction(is_permuted ? PermutedRows(obs) : obs, noise);
  }
  const Tensor wanted = normalizer.Normalize(
      "action", batch.action.narrow(1, horizons.n_obs_steps - 1, horizons.n_action_steps));
  const Tensor errors = (normalizer.Normalize("action", action) - wanted).square();
  const Tensor mean_action = wanted.mean(at::IntArrayRef({0, 1}), /*keepdim=*/true);
  ChunkError error = {.mean = Double(errors.mean()),
                      .of_mean_action = Double((wanted - mean_action).square().mean())};
  for (std::int64_t t = 0; t < horizons.n_action_steps; ++t) {
    error.by_step.push_back(Double(errors.select(1, t).mean()));
  }
  return {.n_chunks = action.size(0),
          .steps = trace.steps(),
          .recorded = wanted,
          .error = error,
          .is_finite = torch::isfinite(action).all().item<bool>()};
}

Findings CheckSample(const SamplingSample& sample, const Normalizer& normalizer,
                     const std::optional<NoiseSchedulerConfig>& scheduler) {
  Findings findings = {CheckDivergence(sample, scheduler)};
  if (sample.error) findings.push_back(CheckActionError(*sample.error));
  if (!scheduler || !scheduler->clip_sample || sample.steps.empty()) return findings;
  findings.push_back(CheckManyClipped(sample, scheduler->clip_sample_range));
  findings.push_back(CheckFewClipped(sample, normalizer, *scheduler));
  return findings;
}

Findings CheckSampling(const SamplingCase& sampling) {
  const SamplingSample sample =
      RecordSampling(sampling.policy, sampling.normalizer, sampling.probe);
  Findings findings = CheckSample(sample, sampling.normalizer, sampling.scheduler);
  const double error = sample.error->mean;
  findings.insert(findings.end(), {CheckObsMatter(sampling, error), CheckStepCount(sampling, error),
                                   CompareVariants(sampling, error)});
  return findings;
}

}  // namespace dp_bench::diagnose
