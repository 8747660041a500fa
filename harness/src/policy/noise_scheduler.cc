// The noise schedulers of diffusion policies: the forward process in closed form and the reverse
// step. Semantics of diffusers' DDPMScheduler, DDIMScheduler, DPMSolverMultistepScheduler,
// EulerDiscreteScheduler and HeunDiscreteScheduler, checked against them in golden tests.
#include "dp_bench/noise_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "dp_bench/array.h"
#include "dp_bench/error.h"
#include "dp_bench/stage_trace.h"
#include "policy/schedule.h"

namespace dp_bench {

// One reverse diffusion step is linear in the sample x_t, the network's output, the (clipped)
// predicted x_0, that of the step before, and the noise. The samplers differ only in the
// coefficients:
// x_0     = x0_from_sample * x_t + x0_from_output * output, then clipped
// x_{t-1} = prev_from_x0 * x_0 + prev_from_sample * x_t + prev_from_output * output +
//           prev_from_last_x0 * last x_0 + sigma * noise
struct StepCoefficients {
  double x0_from_sample = 0.0;
  double x0_from_output = 0.0;
  double prev_from_x0 = 0.0;
  double prev_from_sample = 0.0;
  double prev_from_output = 0.0;
  double prev_from_last_x0 = 0.0;
  double sigma = 0.0;
};

// The second half of a step of Heun's method: x_{t-1} = from_sample * x_t +
// from_predicted * (result of the first half) + from_x0 * x_0.
struct CorrectionCoefficients {
  double from_sample = 0.0;
  double from_predicted = 0.0;
  double from_x0 = 0.0;
};

namespace {

// The first choice is the default.
template <class Enum>
Enum ReadEnum(const Config& config, std::string_view key,
              const std::vector<std::pair<std::string, Enum>>& choices, const KeyMeaning& meaning) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) names.push_back(name);
  const std::string found = config.GetChoice(key, names, meaning);
  return choices[static_cast<std::size_t>(std::ranges::find(names, found) - names.begin())].second;
}

int ReadInt(const Config& config, std::string_view key, int default_value, int low, int high,
            const KeyMeaning& meaning) {
  return static_cast<int>(config.GetInRange(key, std::int64_t{default_value}, low, high, meaning));
}

std::array<double, 2> ReadBetaClip(const Config& config, std::array<double, 2> defaults) {
  const auto clip = config.Get<std::vector<double>>(
      "beta_clip", {defaults.begin(), defaults.end()},
      "cosine only: smallest and largest noise variance of a step; the first beta of a linear "
      "schedule is the usual smallest");
  if (clip.size() == 2) return {clip[0], clip[1]};
  throw Error(ErrorCode::kConfig,
              fmt::format("{}: expected 2 numbers, the smallest and the largest "
                          "noise variance, found {}",
                          config.Where("beta_clip"), clip.size()));
}

void RequireWorkable(const NoiseSchedulerConfig& config) {
  const auto require = [](bool holds, std::string_view what) {
    if (!holds) throw Error(ErrorCode::kConfig, fmt::format("noise_scheduler: {}", what));
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

// A value per row of the table, shaped [B, 1, ...] to broadcast with `like` [B, ...].
torch::Tensor Gather(const torch::Tensor& table, const torch::Tensor& timesteps,
                     const torch::Tensor& like) {
  if (timesteps.dim() != 1 || like.dim() < 1 || timesteps.size(0) != like.size(0)) {
    throw Error(ErrorCode::kShape,
                fmt::format("timesteps have shape {}, samples {}; one timestep per row is needed",
                            ToString(timesteps.sizes().vec()), ToString(like.sizes().vec())));
  }
  std::vector<std::int64_t> shape(static_cast<std::size_t>(like.dim()), 1);
  shape[0] = like.size(0);
  return table.to(timesteps.device()).index_select(0, timesteps).to(like.options()).view(shape);
}

// The coefficients of x_0 as a function of x_t and the network's output (DDPM eq. 15 for epsilon).
StepCoefficients X0Coefficients(PredictionType prediction_type, double alpha_bar) {
  const double signal = std::sqrt(alpha_bar);
  const double noise = std::sqrt(1.0 - alpha_bar);
  switch (prediction_type) {
    case PredictionType::kEpsilon:
      return {.x0_from_sample = 1.0 / signal, .x0_from_output = -noise / signal};
    case PredictionType::kSample:
      return {.x0_from_sample = 0.0, .x0_from_output = 1.0};
    case PredictionType::kVPrediction:
      return {.x0_from_sample = signal, .x0_from_output = -noise};
  }
  throw Error(ErrorCode::kInternal, "unknown prediction_type");
}

// Variance of the posterior q(x_{t-1} | x_t, x_0), DDPM eq. 7. DDIM eq. 16 is its square root times
// eta.
double PosteriorVariance(double alpha_bar, double alpha_bar_prev) {
  return (1.0 - alpha_bar_prev) / (1.0 - alpha_bar) * (1.0 - alpha_bar / alpha_bar_prev);
}

// DDPM with the posterior's variance ("fixed_small"). `alpha_bar`, `alpha_bar_prev`: alphas_cumprod
// at this timestep and at the next one of the reverse process, 1 after the last.
StepCoefficients DdpmCoefficients(PredictionType prediction_type, double alpha_bar,
                                  double alpha_bar_prev, bool is_timestep_zero) {
  StepCoefficients c = X0Coefficients(prediction_type, alpha_bar);
  // DDPM eq. 7: posterior mean; alpha and beta cover the whole stride
  const double alpha = alpha_bar / alpha_bar_prev;
  const double beta = 1.0 - alpha;
  c.prev_from_x0 = std::sqrt(alpha_bar_prev) * beta / (1.0 - alpha_bar);
  c.prev_from_sample = std::sqrt(alpha) * (1.0 - alpha_bar_prev) / (1.0 - alpha_bar);
  constexpr double kMinVariance = 1e-20;  // diffusers' floor
  if (!is_timestep_zero) {
    c.sigma = std::sqrt(std::max(PosteriorVariance(alpha_bar, alpha_bar_prev), kMinVariance));
  }
  return c;
}

StepCoefficients DdimCoefficients(PredictionType prediction_type, double alpha_bar,
                                  double alpha_bar_prev, double eta) {
  StepCoefficients c = X0Coefficients(prediction_type, alpha_bar);
  c.sigma = eta * std::sqrt(PosteriorVariance(alpha_bar, alpha_bar_prev));
  c.prev_from_x0 = std::sqrt(alpha_bar_prev);

  // DDIM eq. 12: the direction to x_t follows the predicted noise, which is not clipped
  const double direction = std::sqrt(std::max(1.0 - alpha_bar_prev - c.sigma * c.sigma, 0.0));
  const double signal = std::sqrt(alpha_bar);
  const double noise = std::sqrt(1.0 - alpha_bar);
  switch (prediction_type) {
    case PredictionType::kEpsilon:
      c.prev_from_output = direction;
      break;
    case PredictionType::kSample:
      c.prev_from_sample = direction / noise;
      c.prev_from_output = -direction * signal / noise;
      break;
    case PredictionType::kVPrediction:
      c.prev_from_sample = direction * noise;
      c.prev_from_output = direction * signal;
      break;
  }
  return c;
}

// The noise of a sample per unit of its signal: sigma of Karras et al. 2022.
double NoiseLevel(double alpha_bar) { return std::sqrt((1.0 - alpha_bar) / alpha_bar); }

// Half the logarithm of the signal-to-noise ratio: lambda of Lu et al. 2022.
double HalfLogSnr(double alpha_bar) { return -std::log(NoiseLevel(alpha_bar)); }

// A step of Euler's method on the probability-flow ODE (Karras et al. 2022, eq. 4 and Alg. 1
// without its correction), which scales samples to signal 1. Here they keep the variance of the
// process. Lu et al. 2022, eq. 9, of first order, is the same step.
StepCoefficients EulerCoefficients(PredictionType prediction_type, double alpha_bar,
                                   double alpha_bar_prev) {
  StepCoefficients c = X0Coefficients(prediction_type, alpha_bar);
  c.prev_from_sample = std::sqrt((1.0 - alpha_bar_prev) / (1.0 - alpha_bar));
  c.prev_from_x0 =
      std::sqrt(alpha_bar_prev) * (1.0 - NoiseLevel(alpha_bar_prev) / NoiseLevel(alpha_bar));
  return c;
}

// DPM-Solver++ 2M, Lu et al. 2022 Alg. 2: x_0 is extrapolated from the last two predictions.
// `alpha_bar_last`: alphas_cumprod at the timestep before.
void ExtrapolateX0(double alpha_bar, double alpha_bar_prev, double alpha_bar_last,
                   StepCoefficients* c) {
  const double step = HalfLogSnr(alpha_bar_prev) - HalfLogSnr(alpha_bar);
  const double last_step = HalfLogSnr(alpha_bar) - HalfLogSnr(alpha_bar_last);
  const double weight = step / (2.0 * last_step);
  c->prev_from_last_x0 = -weight * c->prev_from_x0;
  c->prev_from_x0 *= 1.0 + weight;
}

}  // namespace

NoiseSchedulerConfig NoiseSchedulerConfig::FromConfig(const Config& config) {
  NoiseSchedulerConfig c;
  constexpr int kMaxTimesteps = 1'000'000;
  c.type = ReadEnum<SchedulerType>(
      config, "type",
      {{"ddpm", SchedulerType::kDdpm},
       {"ddim", SchedulerType::kDdim},
       {"dpmsolver++", SchedulerType::kDpmSolverPlusPlus},
       {"euler", SchedulerType::kEuler},
       {"heun", SchedulerType::kHeun}},
      "the sampler: how noise is removed, as in diffusers. It can be changed without training. "
      "heun evaluates the network twice per step, except in the last one");
  c.num_train_timesteps = ReadInt(config, "num_train_timesteps", c.num_train_timesteps, 1,
                                  kMaxTimesteps, "steps from data to noise in training");
  c.num_inference_steps = ReadInt(
      config, "num_inference_steps", c.num_train_timesteps, 1, c.num_train_timesteps,
      "denoising steps when actions are planned; at most and by default num_train_timesteps");
  c.beta_start = config.GetInRange("beta_start", c.beta_start, 0.0, 1.0,
                                   "noise variance of the first step; unused by the cosines");
  c.beta_end = config.GetInRange("beta_end", c.beta_end, 0.0, 1.0,
                                 "noise variance of the last step; unused by the cosines");
  c.beta_schedule = ReadEnum<BetaSchedule>(config, "beta_schedule",
                                           {{"squaredcos_cap_v2", BetaSchedule::kSquaredcosCapV2},
                                            {"linear", BetaSchedule::kLinear},
                                            {"scaled_linear", BetaSchedule::kScaledLinear},
                                            {"quadratic", BetaSchedule::kQuadratic},
                                            {"cosine", BetaSchedule::kCosine}},
                                           "course of the noise variance over the steps; cosine is "
                                           "squaredcos_cap_v2 within beta_clip");
  c.beta_clip = ReadBetaClip(config, c.beta_clip);
  c.prediction_type = ReadEnum<PredictionType>(config, "prediction_type",
                                               {{"epsilon", PredictionType::kEpsilon},
                                                {"sample", PredictionType::kSample},
                                                {"v_prediction", PredictionType::kVPrediction}},
                                               "what the network predicts: the noise, the action, "
                                               "or the velocity between them");
  c.clip_sample = config.Get<bool>("clip_sample", c.clip_sample,
                                   "clip the predicted normalized action at each denoising step");
  c.clip_sample_range = config.Get<double>("clip_sample_range", c.clip_sample_range,
                                           "clip it to plus and minus this, in normalized units: "
                                           "1 for normalizer.action=limits, 3 or more deviations "
                                           "for gaussian");
  c.timestep_spacing = ReadEnum<TimestepSpacing>(config, "timestep_spacing",
                                                 {{"leading", TimestepSpacing::kLeading},
                                                  {"trailing", TimestepSpacing::kTrailing},
                                                  {"linspace", TimestepSpacing::kLinspace}},
                                                 "which training steps the denoising steps are");
  c.steps_offset = ReadInt(config, "steps_offset", c.steps_offset, 0, kMaxTimesteps,
                           "added to the denoising steps of the spacing leading");
  c.set_alpha_to_one = config.Get<bool>("set_alpha_to_one", c.set_alpha_to_one,
                                        "ddim only: the last step ends without noise; false: with "
                                        "that of training step 0");
  c.eta = config.GetInRange("eta", c.eta, 0.0, 1.0,
                            "ddim only: noise added at each step; 0 none, 1 as much as ddpm");
  return c;
}

NoiseScheduler::NoiseScheduler(const NoiseSchedulerConfig& config) : config_(config) {
  RequireWorkable(config_);
  betas_ = policy::MakeBetas(config_);
  alphas_cumprod_ = policy::MakeAlphasCumprod(betas_);
  if (alphas_cumprod_.front() >= 1.0 || alphas_cumprod_.back() <= 0.0) {
    throw Error(
        ErrorCode::kConfig,
        fmt::format("noise_scheduler: alphas_cumprod runs from {} to {}, beyond what float32 "
                    "resolves between 1 and 0; change beta_start, beta_end or "
                    "num_train_timesteps",
                    alphas_cumprod_.front(), alphas_cumprod_.back()));
  }
  const torch::Tensor alphas_cumprod = torch::tensor(alphas_cumprod_, torch::kFloat64);
  sqrt_alphas_cumprod_ = alphas_cumprod.sqrt();
  sqrt_one_minus_alphas_cumprod_ = (1.0 - alphas_cumprod).sqrt();
  SetTimesteps(config_.num_inference_steps);
}

void NoiseScheduler::SetTimesteps(int num_inference_steps) {
  timesteps_ = policy::MakeTimesteps(config_, num_inference_steps);
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
  throw Error(ErrorCode::kInternal, "unknown prediction_type");
}

bool NoiseScheduler::NeedsNoise(std::int64_t timestep) const {
  return Coefficients(timestep).sigma > 0.0;
}

torch::Tensor NoiseScheduler::PredictX0(const StepCoefficients& c,
                                        const torch::Tensor& model_output,
                                        const torch::Tensor& sample) const {
  // products are rounded before they are added, because add_ with a factor uses fused multiply-adds
  // on some processors only
  torch::Tensor x_0 = model_output * c.x0_from_output;
  if (c.x0_from_sample != 0.0) x_0.add_(sample * c.x0_from_sample);
  return x_0;
}

torch::Tensor NoiseScheduler::Clipped(torch::Tensor x_0) const {
  if (config_.clip_sample) x_0.clamp_(-config_.clip_sample_range, config_.clip_sample_range);
  return x_0;
}

NoiseScheduler::StepOutput NoiseScheduler::Step(const torch::Tensor& model_output,
                                                std::int64_t timestep, const torch::Tensor& sample,
                                                const torch::Tensor& variance_noise,
                                                bool count_clipped,
                                                const torch::Tensor& last_x_0) const {
  const StepCoefficients c = Coefficients(timestep, last_x_0.defined());
  StepOutput output;

  torch::Tensor x_0 = PredictX0(c, model_output, sample);
  if (count_clipped) {
    output.n_clipped = config_.clip_sample ? x_0.abs().gt(config_.clip_sample_range).sum()
                                           : torch::zeros({}, torch::kInt64).to(x_0.device());
  }
  x_0 = Clipped(std::move(x_0));

  // go to x_{t-1}
  torch::Tensor prev_sample = x_0 * c.prev_from_x0;
  if (c.prev_from_sample != 0.0) prev_sample.add_(sample * c.prev_from_sample);
  if (c.prev_from_output != 0.0) prev_sample.add_(model_output * c.prev_from_output);
  if (c.prev_from_last_x0 != 0.0) prev_sample.add_(last_x_0 * c.prev_from_last_x0);
  if (c.sigma > 0.0) {
    if (!variance_noise.defined()) {
      throw Error(ErrorCode::kInternal,
                  fmt::format("the reverse step at timestep {} needs variance_noise", timestep));
    }
    prev_sample.add_(variance_noise * c.sigma);
  }
  output.prev_sample = std::move(prev_sample);
  output.pred_original_sample = std::move(x_0);
  return output;
}

std::optional<std::int64_t> NoiseScheduler::CorrectedAt(std::int64_t timestep) const {
  if (config_.type != SchedulerType::kHeun) return std::nullopt;
  const std::size_t next = IndexOf(timestep) + 1;
  if (next == timesteps_.size()) return std::nullopt;
  return timesteps_[next];
}

std::vector<policy::SamplerStep> NoiseScheduler::StepAsNumbers(std::int64_t timestep,
                                                               bool has_last_x_0) const {
  const StepCoefficients c = Coefficients(timestep, has_last_x_0);
  const auto clip = config_.clip_sample ? std::optional(config_.clip_sample_range) : std::nullopt;
  std::vector<policy::SamplerStep> steps = {{.time = static_cast<double>(timestep),
                                             .x0_from_sample = c.x0_from_sample,
                                             .x0_from_output = c.x0_from_output,
                                             .clip = clip,
                                             .next_from_x0 = c.prev_from_x0,
                                             .next_from_sample = c.prev_from_sample,
                                             .next_from_output = c.prev_from_output,
                                             .next_from_last_x0 = c.prev_from_last_x0,
                                             .noise = c.sigma}};
  if (const std::optional<std::int64_t> next = CorrectedAt(timestep)) {
    const CorrectionCoefficients correction = CorrectionAt(timestep, *next);
    const StepCoefficients x_0 = X0Coefficients(config_.prediction_type, AlphaBar(*next));
    steps.push_back({.time = static_cast<double>(*next),
                     .x0_from_sample = x_0.x0_from_sample,
                     .x0_from_output = x_0.x0_from_output,
                     .clip = clip,
                     .next_from_x0 = correction.from_x0,
                     .next_from_sample = correction.from_predicted,
                     .next_from_last_sample = correction.from_sample});
  }
  return steps;
}

// Karras et al. 2022, Alg. 1, lines 7 and 8, in samples that keep the variance of the process: the
// mean of the slopes at both ends of the step takes the place of the slope at its beginning.
CorrectionCoefficients NoiseScheduler::CorrectionAt(std::int64_t timestep,
                                                    std::int64_t next) const {
  const double slope = 0.5 * (NoiseLevel(AlphaBar(timestep)) / NoiseLevel(AlphaBar(next)) - 1.0);
  return {.from_sample = 0.5 * std::sqrt(AlphaBar(next) / AlphaBar(timestep)),
          .from_predicted = 0.5 - slope,
          .from_x0 = slope * std::sqrt(AlphaBar(next))};
}

double NoiseScheduler::AlphaBar(std::int64_t timestep) const {
  return alphas_cumprod_[static_cast<std::size_t>(timestep)];
}

torch::Tensor NoiseScheduler::Correct(const torch::Tensor& model_output, std::int64_t timestep,
                                      const torch::Tensor& sample,
                                      const torch::Tensor& predicted) const {
  const std::optional<std::int64_t> next = CorrectedAt(timestep);
  DPB_ASSERT(next.has_value());
  const CorrectionCoefficients c = CorrectionAt(timestep, *next);
  const torch::Tensor x_0 = Clipped(
      PredictX0(X0Coefficients(config_.prediction_type, AlphaBar(*next)), model_output, predicted));
  torch::Tensor corrected = sample * c.from_sample;
  corrected.add_(predicted * c.from_predicted);
  corrected.add_(x_0 * c.from_x0);
  return corrected;
}

std::size_t NoiseScheduler::IndexOf(std::int64_t timestep) const {
  const auto found = std::ranges::find(timesteps_, timestep);
  if (found == timesteps_.end()) {
    throw Error(ErrorCode::kInternal, fmt::format("timestep {} is none of the {} denoising steps",
                                                  timestep, timesteps_.size()));
  }
  return static_cast<std::size_t>(found - timesteps_.begin());
}

StepCoefficients NoiseScheduler::Coefficients(std::int64_t timestep, bool has_last_x_0) const {
  if (timestep < 0 || timestep >= config_.num_train_timesteps) {
    throw Error(ErrorCode::kInternal, fmt::format("timestep {} lies outside 0 .. {}", timestep,
                                                  config_.num_train_timesteps - 1));
  }
  const double alpha_bar = alphas_cumprod_[static_cast<std::size_t>(timestep)];
  const auto alpha_bar_at = [&](std::int64_t prev, double after_last) {
    return prev < 0 ? after_last : alphas_cumprod_[static_cast<std::size_t>(prev)];
  };
  if (config_.type == SchedulerType::kDdpm) {
    // the next lower timestep of the reverse process
    const auto below = std::ranges::find_if(timesteps_, [&](auto t) { return t < timestep; });
    const std::int64_t prev = below == timesteps_.end() ? -1 : *below;
    return DdpmCoefficients(config_.prediction_type, alpha_bar, alpha_bar_at(prev, 1.0),
                            timestep == 0);
  }
  if (config_.type == SchedulerType::kDdim) {
    // DDIM strides evenly with every spacing
    const std::int64_t stride =
        config_.num_train_timesteps / static_cast<std::int64_t>(timesteps_.size());
    const double final_alpha = config_.set_alpha_to_one ? 1.0 : alphas_cumprod_.front();
    return DdimCoefficients(config_.prediction_type, alpha_bar,
                            alpha_bar_at(timestep - stride, final_alpha), config_.eta);
  }
  // the others step from each of their timesteps to the next, and from the last to no noise
  const std::size_t i = IndexOf(timestep);
  const bool is_last = i + 1 == timesteps_.size();
  const double alpha_bar_prev = alpha_bar_at(is_last ? -1 : timesteps_[i + 1], 1.0);
  StepCoefficients c = EulerCoefficients(config_.prediction_type, alpha_bar, alpha_bar_prev);
  const bool is_multistep =
      config_.type == SchedulerType::kDpmSolverPlusPlus && has_last_x_0 && i > 0;
  if (is_multistep && !is_last) {
    ExtrapolateX0(alpha_bar, alpha_bar_prev, alpha_bar_at(timesteps_[i - 1], 1.0), &c);
  }
  return c;
}

}  // namespace dp_bench
