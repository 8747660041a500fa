// The noise schedulers of diffusion policies: the forward process in closed form and the reverse
// step. Semantics of diffusers' DDPMScheduler, DDIMScheduler, DPMSolverMultistepScheduler,
// EulerDiscreteScheduler and HeunDiscreteScheduler, checked against them in golden tests.
#include "policy/noise_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <span>
#include <string_view>

#include "core/errors.h"
#include "dp_bench/array.h"
#include "dp_bench/config_keys.h"
#include "dp_bench/stage_trace.h"

namespace dp_bench {

namespace {

using policy::SamplerStep;

// Beta schedules: linear (Ho et al. 2020), cosine (Nichol & Dhariwal 2021, eq. 17) and two
// quadratic ones, as in diffusers 0.30 and later.

double RoundToFloat(double x) { return static_cast<double>(static_cast<float>(x)); }

// Nichol & Dhariwal 2021, eq. 17, before the division by its value at 0.
double CosineAlphaBar(double progress) {
  constexpr double kOffset = 0.008;
  const double c = std::cos((progress + kOffset) / (1.0 + kOffset) * std::numbers::pi / 2.0);
  return c * c;
}

double CosineBeta(int t, int num_train_timesteps) {
  const double begin = static_cast<double>(t) / num_train_timesteps;
  const double end = static_cast<double>(t + 1) / num_train_timesteps;
  return 1.0 - CosineAlphaBar(end) / CosineAlphaBar(begin);
}

double Beta(const NoiseSchedulerConfig& config, int t) {
  const int last = config.num_train_timesteps - 1;
  const double progress = last == 0 ? 0.0 : static_cast<double>(t) / last;
  switch (config.beta_schedule) {
    case BetaSchedule::kLinear:
      return config.beta_start + (config.beta_end - config.beta_start) * progress;
    case BetaSchedule::kQuadratic:
      return config.beta_start + (config.beta_end - config.beta_start) * progress * progress;
    case BetaSchedule::kScaledLinear: {
      const double start = std::sqrt(config.beta_start);
      const double root = start + (std::sqrt(config.beta_end) - start) * progress;
      return root * root;
    }
    case BetaSchedule::kSquaredcosCapV2:
      return std::min(CosineBeta(t, config.num_train_timesteps), 0.999);  // as in diffusers
    case BetaSchedule::kCosine:
      return std::clamp(CosineBeta(t, config.num_train_timesteps), config.beta_clip[0],
                        config.beta_clip[1]);
  }
  throw InternalError("unknown beta_schedule");
}

// beta_t for t = 0 .. num_train_timesteps - 1. The values are rounded to float32, as in diffusers:
// the last alphas_cumprod of the cosine schedule depend on that rounding.
std::vector<double> MakeBetas(const NoiseSchedulerConfig& config) {
  std::vector<double> betas;
  for (int t = 0; t < config.num_train_timesteps; ++t) {
    betas.push_back(RoundToFloat(Beta(config, t)));
  }
  return betas;
}

// Running product of 1 - beta_t, rounded to float32.
std::vector<double> MakeAlphasCumprod(const std::vector<double>& betas) {
  std::vector<double> alphas_cumprod;
  double product = 1.0;
  for (const double beta : betas) {
    product *= RoundToFloat(1.0 - beta);
    alphas_cumprod.push_back(RoundToFloat(product));
  }
  return alphas_cumprod;
}

// The coefficients of x_0 as a function of x_t and the network's output (DDPM eq. 15 for epsilon).
SamplerStep X0Step(PredictionType prediction_type, double alpha_bar) {
  const double signal = std::sqrt(alpha_bar);
  const double noise = std::sqrt(1.0 - alpha_bar);
  SamplerStep step = {.signal_level = signal, .noise_level = noise};
  switch (prediction_type) {
    case PredictionType::kEpsilon:
      step.x0_from_sample = 1.0 / signal;
      step.x0_from_output = -noise / signal;
      return step;
    case PredictionType::kSample:
      step.x0_from_output = 1.0;
      return step;
    case PredictionType::kVPrediction:
      step.x0_from_sample = signal;
      step.x0_from_output = -noise;
      return step;
  }
  throw InternalError("unknown prediction_type");
}

// Variance of the posterior q(x_{t-1} | x_t, x_0), DDPM eq. 7. DDIM eq. 16 is its square root times
// eta.
double PosteriorVariance(double alpha_bar, double alpha_bar_prev) {
  return (1.0 - alpha_bar_prev) / (1.0 - alpha_bar) * (1.0 - alpha_bar / alpha_bar_prev);
}

// A timestep of the reverse process, and what its samplers may look at.
struct Place {
  const NoiseSchedulerConfig& config;
  std::span<const double> alphas_cumprod;   // of all training timesteps
  std::span<const std::int64_t> timesteps;  // of the process
  std::size_t i;                            // this one in `timesteps`

  bool is_last() const { return i + 1 == timesteps.size(); }
  // alphas_cumprod; after the last timestep there is no noise
  double AlphaBar(std::int64_t timestep, double after_last = 1.0) const {
    return timestep < 0 ? after_last : alphas_cumprod[static_cast<std::size_t>(timestep)];
  }
  double here() const { return AlphaBar(timesteps[i]); }
  double next() const { return AlphaBar(is_last() ? -1 : timesteps[i + 1]); }
  double before() const { return AlphaBar(timesteps[i - 1]); }
};

// The evaluations of the network from a timestep to the next one.
using Steps = std::vector<SamplerStep>;

// DDPM with the posterior's variance ("fixed_small").
Steps DdpmSteps(const Place& at) {
  const double alpha_bar = at.here();
  const double alpha_bar_prev = at.next();
  SamplerStep c = X0Step(at.config.prediction_type, alpha_bar);
  // DDPM eq. 7: posterior mean; alpha and beta cover the whole stride
  const double alpha = alpha_bar / alpha_bar_prev;
  const double beta = 1.0 - alpha;
  c.next_from_x0 = std::sqrt(alpha_bar_prev) * beta / (1.0 - alpha_bar);
  c.next_from_sample = std::sqrt(alpha) * (1.0 - alpha_bar_prev) / (1.0 - alpha_bar);
  constexpr double kMinVariance = 1e-20;  // diffusers' floor
  if (at.timesteps[at.i] != 0) {
    c.noise = std::sqrt(std::max(PosteriorVariance(alpha_bar, alpha_bar_prev), kMinVariance));
  }
  return {c};
}

Steps DdimSteps(const Place& at) {
  // DDIM strides evenly with every spacing
  const std::int64_t stride = at.config.num_train_timesteps / std::ssize(at.timesteps);
  const double alpha_bar = at.here();
  const double alpha_bar_prev = at.AlphaBar(
      at.timesteps[at.i] - stride, at.config.set_alpha_to_one ? 1.0 : at.alphas_cumprod.front());
  SamplerStep c = X0Step(at.config.prediction_type, alpha_bar);
  c.noise = at.config.eta * std::sqrt(PosteriorVariance(alpha_bar, alpha_bar_prev));
  c.next_from_x0 = std::sqrt(alpha_bar_prev);

  // DDIM eq. 12: the direction to x_t follows the predicted noise, which is not clipped
  const double direction = std::sqrt(std::max(1.0 - alpha_bar_prev - c.noise * c.noise, 0.0));
  const double signal = std::sqrt(alpha_bar);
  const double noise = std::sqrt(1.0 - alpha_bar);
  switch (at.config.prediction_type) {
    case PredictionType::kEpsilon:
      c.next_from_output = direction;
      break;
    case PredictionType::kSample:
      c.next_from_sample = direction / noise;
      c.next_from_output = -direction * signal / noise;
      break;
    case PredictionType::kVPrediction:
      c.next_from_sample = direction * noise;
      c.next_from_output = direction * signal;
      break;
  }
  return {c};
}

// The noise of a sample per unit of its signal: sigma of Karras et al. 2022.
double NoiseLevel(double alpha_bar) { return std::sqrt((1.0 - alpha_bar) / alpha_bar); }

// Half the logarithm of the signal-to-noise ratio: lambda of Lu et al. 2022.
double HalfLogSnr(double alpha_bar) { return -std::log(NoiseLevel(alpha_bar)); }

// A step of Euler's method on the probability-flow ODE (Karras et al. 2022, eq. 4 and Alg. 1
// without its correction), which scales samples to signal 1. Here they keep the variance of the
// process. Lu et al. 2022, eq. 9, of first order, is the same step.
Steps EulerSteps(const Place& at) {
  SamplerStep c = X0Step(at.config.prediction_type, at.here());
  c.next_from_sample = std::sqrt((1.0 - at.next()) / (1.0 - at.here()));
  c.next_from_x0 = std::sqrt(at.next()) * (1.0 - NoiseLevel(at.next()) / NoiseLevel(at.here()));
  return {c};
}

// DPM-Solver++ 2M, Lu et al. 2022 Alg. 2: x_0 is extrapolated from the last two predictions. The
// first and the last step are of first order.
Steps DpmSolverSteps(const Place& at) {
  Steps steps = EulerSteps(at);
  if (at.i == 0 || at.is_last()) return steps;
  const double step = HalfLogSnr(at.next()) - HalfLogSnr(at.here());
  const double last_step = HalfLogSnr(at.here()) - HalfLogSnr(at.before());
  const double weight = step / (2.0 * last_step);
  steps[0].next_from_last_x0 = -weight * steps[0].next_from_x0;
  steps[0].next_from_x0 *= 1.0 + weight;
  return steps;
}

// Karras et al. 2022, Alg. 1, in samples that keep the variance of the process. Lines 7 and 8: the
// mean of the slopes at both ends of the step takes the place of the slope at its beginning.
Steps HeunSteps(const Place& at) {
  Steps steps = EulerSteps(at);
  if (at.is_last()) return steps;
  const double begin = at.here();
  const double end = at.next();
  const double slope = 0.5 * (NoiseLevel(begin) / NoiseLevel(end) - 1.0);
  SamplerStep correction = X0Step(at.config.prediction_type, end);
  correction.time = static_cast<double>(at.timesteps[at.i + 1]);
  correction.next_from_x0 = slope * std::sqrt(end);
  correction.next_from_sample = 0.5 - slope;
  correction.next_from_last_sample = 0.5 * std::sqrt(end / begin);
  steps.push_back(correction);
  return steps;
}

// A sampler is one line here: its name in configs, its function, and how many timesteps more than
// it visits are spaced, of which it leaves out the lowest.
struct Sampler {
  std::string_view name;
  Steps (*steps)(const Place& at);
  int n_left_out = 0;
};

constexpr std::array kSamplers = {Sampler{"ddpm", DdpmSteps}, Sampler{"ddim", DdimSteps},
                                  Sampler{"dpmsolver++", DpmSolverSteps, /*n_left_out=*/1},
                                  Sampler{"euler", EulerSteps}, Sampler{"heun", HeunSteps}};

const Sampler& SamplerOf(const NoiseSchedulerConfig& config) {
  const auto* const found =
      std::ranges::find(kSamplers, std::string_view(config.type), &Sampler::name);
  DPB_ASSERT(found != kSamplers.end());
  return *found;
}

void RequireWorkable(const NoiseSchedulerConfig& config) {
  const auto require = [](bool holds, std::string_view what) {
    if (!holds) throw ConfigError("noise_scheduler: {}", what);
  };
  require(
      config.num_train_timesteps >= 1,
      fmt::format("num_train_timesteps is {}; it must be at least 1", config.num_train_timesteps));
  require(
      config.beta_start > 0.0 && config.beta_start <= config.beta_end && config.beta_end < 1.0,
      fmt::format("beta_start is {} and beta_end is {}; 0 < beta_start <= beta_end < 1 must hold",
                  config.beta_start, config.beta_end));
  require(config.beta_clip[0] >= 0.0 && config.beta_clip[0] <= config.beta_clip[1] &&
              config.beta_clip[1] < 1.0,
          fmt::format("beta_clip is [{}, {}]; 0 <= smallest <= largest < 1 must hold",
                      config.beta_clip[0], config.beta_clip[1]));
  require(config.clip_sample_range > 0.0,
          fmt::format("clip_sample_range is {}; it must be positive", config.clip_sample_range));
  require(config.eta >= 0.0 && config.eta <= 1.0,
          fmt::format("eta is {}; it must lie within 0 and 1", config.eta));
  require(config.steps_offset >= 0,
          fmt::format("steps_offset is {}; it must not be negative", config.steps_offset));
}

// The timesteps of the reverse process, high to low. Spacings: Lin et al. 2024, "Common diffusion
// noise schedules and sample steps are flawed", table 2.
std::vector<std::int64_t> MakeTimesteps(const NoiseSchedulerConfig& config) {
  const int train = config.num_train_timesteps;
  const int inference = config.num_inference_steps;
  if (inference < 1 || inference > train) {
    throw ConfigError(
        "num_inference_steps is {}; it must lie within 1 and num_train_timesteps = {}", inference,
        train);
  }
  const int left_out = SamplerOf(config).n_left_out;
  const int spaced = inference + left_out;
  const int ratio = train / spaced;  // rounded down, as in diffusers
  // std::nearbyint rounds halves to even, as numpy does
  std::vector<std::int64_t> timesteps(static_cast<std::size_t>(inference));
  for (int i = 0; i < inference; ++i) {
    const int from_end = inference - 1 - i + left_out;
    double t = 0.0;
    switch (config.timestep_spacing) {
      case TimestepSpacing::kLeading:
        t = from_end * ratio + config.steps_offset;
        break;
      case TimestepSpacing::kTrailing:
        t = std::nearbyint(train - i * (static_cast<double>(train) / inference)) - 1.0;
        break;
      case TimestepSpacing::kLinspace:
        t = spaced == 1
                ? 0.0
                : std::nearbyint(from_end * (static_cast<double>(train - 1) / (spaced - 1)));
        break;
    }
    timesteps[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(t);
  }
  if (timesteps.front() >= train) {
    throw ConfigError(
        "steps_offset {} moves the first of {} inference steps to timestep {}, but the last "
        "trained timestep is {}; lower steps_offset",
        config.steps_offset, inference, timesteps.front(), train - 1);
  }
  const auto twice = std::ranges::adjacent_find(timesteps);
  if (twice != timesteps.end()) {
    throw ConfigError(
        "{} with {} of {} timesteps and this timestep_spacing visits timestep {} more than once; "
        "lower num_inference_steps",
        config.type, inference, train, *twice);
  }
  return timesteps;
}

// A value per row of the table, shaped [B, 1, ...] to broadcast with `like` [B, ...].
torch::Tensor Gather(const torch::Tensor& table, const torch::Tensor& timesteps,
                     const torch::Tensor& like) {
  if (timesteps.dim() != 1 || like.dim() < 1 || timesteps.size(0) != like.size(0)) {
    throw ShapeError("timesteps have shape {}, samples {}; one timestep per row is needed",
                     ToString(timesteps.sizes().vec()), ToString(like.sizes().vec()));
  }
  std::vector<std::int64_t> shape(static_cast<std::size_t>(like.dim()), 1);
  shape[0] = like.size(0);
  return table.to(timesteps.device()).index_select(0, timesteps).to(like.options()).view(shape);
}

}  // namespace

std::vector<std::string> SamplerNames() {
  std::vector<std::string> names;
  for (const Sampler& sampler : kSamplers) names.emplace_back(sampler.name);
  return names;
}

int NoiseSchedulerConfig::most_inference_steps() const {
  return num_train_timesteps - SamplerOf(*this).n_left_out;
}

NoiseSchedulerConfig NoiseSchedulerConfig::FromConfig(const Config& config) {
  constexpr int kMaxTimesteps = 1'000'000;
  NoiseSchedulerConfig c;
  const ConfigKeys keys(config);
  c.type = config.GetChoice(
      "type", SamplerNames(),
      "the sampler: how noise is removed, as in diffusers. It can be changed without training. "
      "heun evaluates the network twice per step, except in the last one");
  keys("num_train_timesteps", &c.num_train_timesteps, 1, kMaxTimesteps,
       "steps from data to noise in training");
  c.num_inference_steps = c.num_train_timesteps;
  keys("num_inference_steps", &c.num_inference_steps, 1, c.num_train_timesteps,
       "denoising steps when actions are planned; at most and by default num_train_timesteps");
  keys("beta_start", &c.beta_start, 0.0, 1.0,
       "noise variance of the first step; unused by the cosines");
  keys("beta_end", &c.beta_end, 0.0, 1.0, "noise variance of the last step; unused by the cosines");
  keys.Choice("beta_schedule", &c.beta_schedule,
              {{"squaredcos_cap_v2", BetaSchedule::kSquaredcosCapV2},
               {"linear", BetaSchedule::kLinear},
               {"scaled_linear", BetaSchedule::kScaledLinear},
               {"quadratic", BetaSchedule::kQuadratic},
               {"cosine", BetaSchedule::kCosine}},
              "course of the noise variance over the steps; cosine is squaredcos_cap_v2 within "
              "beta_clip");
  keys("beta_clip", &c.beta_clip,
       "cosine only: smallest and largest noise variance of a step; the first beta of a linear "
       "schedule is the usual smallest");
  keys.Choice("prediction_type", &c.prediction_type,
              {{"epsilon", PredictionType::kEpsilon},
               {"sample", PredictionType::kSample},
               {"v_prediction", PredictionType::kVPrediction}},
              "what the network predicts: the noise, the action, or the velocity between them");
  keys("clip_sample", &c.clip_sample,
       "clip the predicted normalized action at each denoising step");
  keys("clip_sample_range", &c.clip_sample_range,
       "clip it to plus and minus this, in normalized units: 1 for normalizer.action=limits, 3 or "
       "more deviations for gaussian");
  keys.Choice("timestep_spacing", &c.timestep_spacing,
              {{"leading", TimestepSpacing::kLeading},
               {"trailing", TimestepSpacing::kTrailing},
               {"linspace", TimestepSpacing::kLinspace}},
              "which training steps the denoising steps are");
  keys("steps_offset", &c.steps_offset, 0, kMaxTimesteps,
       "added to the denoising steps of the spacing leading");
  keys("set_alpha_to_one", &c.set_alpha_to_one,
       "ddim only: the last step ends without noise; false: with that of training step 0");
  keys("eta", &c.eta, 0.0, 1.0, "ddim only: noise added at each step; 0 none, 1 as much as ddpm");
  return c;
}

NoiseScheduler::NoiseScheduler(const NoiseSchedulerConfig& config) : config_(config) {
  RequireWorkable(config_);
  betas_ = MakeBetas(config_);
  alphas_cumprod_ = MakeAlphasCumprod(betas_);
  if (alphas_cumprod_.front() >= 1.0 || alphas_cumprod_.back() <= 0.0) {
    throw ConfigError(
        "noise_scheduler: alphas_cumprod runs from {} to {}, beyond what float32 resolves between "
        "1 and 0; change beta_start, beta_end or num_train_timesteps",
        alphas_cumprod_.front(), alphas_cumprod_.back());
  }
  const torch::Tensor alphas_cumprod = torch::tensor(alphas_cumprod_, torch::kFloat64);
  sqrt_alphas_cumprod_ = alphas_cumprod.sqrt();
  sqrt_one_minus_alphas_cumprod_ = (1.0 - alphas_cumprod).sqrt();
  timesteps_ = MakeTimesteps(config_);
}

torch::Tensor NoiseScheduler::AddNoise(const torch::Tensor& x_0, const torch::Tensor& noise,
                                       const torch::Tensor& timesteps) const {
  if (IsTracingStages()) {
    TraceStage("betas", torch::tensor(betas_, torch::kFloat64));
    TraceStage("alphas_cumprod", sqrt_alphas_cumprod_.square());
  }
  // DDPM eq. 4
  return Gather(sqrt_alphas_cumprod_, timesteps, x_0) * x_0 +
         Gather(sqrt_one_minus_alphas_cumprod_, timesteps, x_0) * noise;
}

torch::Tensor NoiseScheduler::Target(const torch::Tensor& x_0, const torch::Tensor& noise,
                                     const torch::Tensor& timesteps) const {
  switch (config_.prediction_type) {
    case PredictionType::kEpsilon:
      return noise;
    case PredictionType::kSample:
      return x_0;
    case PredictionType::kVPrediction:
      // Salimans & Ho 2022, appendix D
      return Gather(sqrt_alphas_cumprod_, timesteps, x_0) * noise -
             Gather(sqrt_one_minus_alphas_cumprod_, timesteps, x_0) * x_0;
  }
  throw InternalError("unknown prediction_type");
}

std::vector<SamplerStep> NoiseScheduler::steps() const {
  std::vector<SamplerStep> steps;
  for (std::size_t i = 0; i < timesteps_.size(); ++i) {
    const std::size_t first = steps.size();
    std::ranges::copy(SamplerOf(config_).steps({config_, alphas_cumprod_, timesteps_, i}),
                      std::back_inserter(steps));
    steps[first].time = static_cast<double>(timesteps_[i]);
  }
  if (config_.clip_sample) {
    for (SamplerStep& step : steps) step.clip = config_.clip_sample_range;
  }
  return steps;
}

}  // namespace dp_bench
