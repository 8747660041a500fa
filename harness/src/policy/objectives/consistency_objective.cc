// See consistency_objective.h.
#include "policy/objectives/consistency_objective.h"

#include <cmath>

#include "core/errors.h"
#include "dp_bench/config_keys.h"
#include "policy/objectives/diffusion_objective.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;

constexpr double kDataDeviation = 0.5;  // sigma_data of Karras et al. 2022

NoiseSchedulerConfig ReadScheduler(const Config& params) {
  const Config section = params.Sub("noise_scheduler");
  const auto config = NoiseSchedulerConfig::FromConfig(section);
  const auto refuse = [&](const char* key, const char* wanted) {
    throw ConfigError("{}: expected {} with objective consistency", section.Where(key), wanted);
  };
  if (config.type != "ddim") refuse("type", "ddim");
  if (config.eta != 0.0) refuse("eta", "0");
  if (config.prediction_type == PredictionType::kEpsilon) {
    refuse("prediction_type", "sample or v_prediction");
  }
  return config;
}

}  // namespace

ConsistencyConfig ConsistencyConfig::FromConfig(const Config& config) {
  ConsistencyConfig c;
  const ConfigKeys keys(config);
  keys("num_inference_steps", &c.num_inference_steps, 1, 1000,
       "evaluations of the network when actions are planned; at most the denoising steps of "
       "noise_scheduler, which are the noise levels of the training. It can be changed without "
       "training");
  return c;
}

ConsistencyObjective::ConsistencyObjective(const Config& params)
    : config_(ConsistencyConfig::FromConfig(params.Sub("consistency"))),
      scheduler_(ReadScheduler(params)) {
  for (const std::int64_t timestep : scheduler_.timesteps()) levels_.push_back(LevelAt(timestep));
  if (config_.num_inference_steps > std::ssize(levels_)) {
    throw ConfigError(
        "{}: expected at most {}, which is noise_scheduler.num_inference_steps, found {}",
        params.Sub("consistency").Where("num_inference_steps"), levels_.size(),
        config_.num_inference_steps);
  }
  levels_.push_back({.timestep = levels_.back().timestep});
}

void ConsistencyObjective::LearnFrom(const Objective& teacher) {
  teacher_ = dynamic_cast<const DiffusionObjective*>(&teacher);
  if (teacher_ == nullptr) {
    throw ConfigError(
        "training.teacher: expected a policy with objective diffusion, found another one");
  }
  if (teacher_->scheduler().alphas_cumprod() != scheduler_.alphas_cumprod()) {
    throw ConfigError(
        "training.teacher: expected the noise schedule of policy.params.noise_scheduler "
        "(num_train_timesteps, beta_schedule and its limits), found another one");
  }
}

ConsistencyObjective::Level ConsistencyObjective::LevelAt(std::int64_t timestep) const {
  const double alpha_bar = scheduler_.alphas_cumprod()[static_cast<std::size_t>(timestep)];
  Level level = {
      .timestep = timestep, .signal = std::sqrt(alpha_bar), .noise = std::sqrt(1.0 - alpha_bar)};
  if (scheduler_.config().prediction_type == PredictionType::kVPrediction) {
    level.of_sample = level.signal;
    level.of_output = -level.noise;
    return level;
  }
  const double sigma = level.noise / level.signal;
  const double share =
      kDataDeviation * kDataDeviation / (sigma * sigma + kDataDeviation * kDataDeviation);
  level.of_sample = share / level.signal;
  level.of_output = 1.0 - share;
  return level;
}

Tensor ConsistencyObjective::Clipped(const Tensor& x_0) const {
  const NoiseSchedulerConfig& config = scheduler_.config();
  return config.clip_sample ? x_0.clamp(-config.clip_sample_range, config.clip_sample_range) : x_0;
}

// A number for each row of a batch, from its level: [B] -> [B, 1, 1].
Tensor ConsistencyObjective::OfRows(double Level::*value, const Tensor& rows,
                                    const Tensor& like) const {
  std::vector<double> by_level;
  for (const Level& level : levels_) by_level.push_back(level.*value);
  return torch::tensor(by_level, torch::kFloat64)
      .index_select(0, rows)
      .to(like.options())
      .view({-1, 1, 1});
}

Tensor ConsistencyObjective::TimesOf(const Tensor& rows, const Tensor& like) const {
  std::vector<std::int64_t> by_level;
  for (const Level& level : levels_) by_level.push_back(level.timestep);
  return torch::tensor(by_level).index_select(0, rows).to(like.device());
}

// DDIM (Song et al. 2021) eq. 12 with each row at its own level, as NoiseScheduler::Step.
Tensor ConsistencyObjective::StepOfTeacher(const Tensor& x_t, const Tensor& rows,
                                           const TrainingInputs& inputs) const {
  const Tensor signal = OfRows(&Level::signal, rows, x_t);
  const Tensor noise = OfRows(&Level::noise, rows, x_t);
  const Tensor output = inputs.teacher(x_t, TimesOf(rows, x_t));
  Tensor x_0;
  Tensor epsilon;
  switch (teacher_->scheduler().config().prediction_type) {
    case PredictionType::kEpsilon:
      x_0 = (x_t - noise * output) / signal;
      epsilon = output;
      break;
    case PredictionType::kSample:
      x_0 = output;
      epsilon = (x_t - signal * output) / noise;
      break;
    case PredictionType::kVPrediction:
      x_0 = signal * x_t - noise * output;
      epsilon = signal * output + noise * x_t;
      break;
  }
  return OfRows(&Level::signal, rows + 1, x_t) * Clipped(x_0) +
         OfRows(&Level::noise, rows + 1, x_t) * epsilon;
}

std::vector<TrainingPass> ConsistencyObjective::Corrupt(const TrainingInputs& inputs) const {
  const Tensor& x_0 = inputs.x_0;
  const Tensor epsilon = inputs.noise.Randn(StreamId::kTrainingNoise, x_0.sizes()).to(x_0.device());
  // of each row: its level, and the one below
  const Tensor rows = inputs.noise.RandInt(StreamId::kDiffusionTimestep, std::ssize(levels_) - 1);
  const Tensor next = rows + 1;
  const auto noisy_at = [&](const Tensor& level) {
    return OfRows(&Level::signal, level, x_0) * x_0 + OfRows(&Level::noise, level, x_0) * epsilon;
  };
  const Tensor x_t = noisy_at(rows);
  const Tensor x_next = teacher_ != nullptr ? StepOfTeacher(x_t, rows, inputs) : noisy_at(next);

  // the target network jumps from there; from the clean sequence it stays where it is
  const Tensor output = inputs.average(x_next, TimesOf(next, x_0));
  const Tensor end = Clipped(OfRows(&Level::of_sample, next, x_0) * x_next +
                             OfRows(&Level::of_output, next, x_0) * output);

  // (a x + b output - end)^2 = b^2 (output - (end - a x) / b)^2
  const Tensor a = OfRows(&Level::of_sample, rows, x_0);
  const Tensor b = OfRows(&Level::of_output, rows, x_0);
  return {{.noisy = x_t,
           .times = TimesOf(rows, x_0),
           .target = ((end - a * x_t) / b).detach(),
           .noise = epsilon,
           .row_weights = b.square().flatten()}};
}

std::vector<SamplerStep> ConsistencyObjective::steps() const {
  const NoiseSchedulerConfig& config = scheduler_.config();
  const auto n_steps = static_cast<std::size_t>(config_.num_inference_steps);
  const auto visited = [&](std::size_t i) { return levels_[i * (levels_.size() - 1) / n_steps]; };
  std::vector<SamplerStep> steps;
  for (std::size_t i = 0; i < n_steps; ++i) {
    const Level level = visited(i);
    const bool is_last = i + 1 == n_steps;
    steps.push_back(
        {.time = static_cast<double>(level.timestep),
         .x0_from_sample = level.of_sample,
         .x0_from_output = level.of_output,
         .clip = config.clip_sample ? std::optional(config.clip_sample_range) : std::nullopt,
         .next_from_x0 = is_last ? 1.0 : visited(i + 1).signal,
         .noise = is_last ? 0.0 : visited(i + 1).noise,
         .signal_level = level.signal,
         .noise_level = level.noise});
  }
  return steps;
}

}  // namespace dp_bench::policy
