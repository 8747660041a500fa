// Learning-rate schedules with linear warm-up, with the formulas of diffusers.optimization.
#include "train/lr_scheduler.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/errors.h"
#include "dp_bench/config_keys.h"

namespace dp_bench::train {
namespace {

double PolynomialFactor(const LrScheduleConfig& config, double progress, double base_lr) {
  // max: after the end, the rate stays at lr_end
  const double remaining = std::max(0.0, 1.0 - progress);
  const double lr = (base_lr - config.lr_end) * std::pow(remaining, config.power) + config.lr_end;
  return lr / base_lr;
}

}  // namespace

LrScheduleConfig LrScheduleConfig::FromConfig(const Config& config) {
  LrScheduleConfig c;
  const ConfigKeys keys(config);
  keys.Choice("lr_scheduler", &c.schedule,
              {{"cosine", LrSchedule::kCosine},
               {"linear", LrSchedule::kLinear},
               {"constant_with_warmup", LrSchedule::kConstantWithWarmup},
               {"constant", LrSchedule::kConstant},
               {"cosine_with_restarts", LrSchedule::kCosineWithRestarts},
               {"polynomial", LrSchedule::kPolynomial}},
              "course of the learning rate over the updates, as in diffusers");
  if (c.schedule == LrSchedule::kCosineWithRestarts) c.num_cycles = 1.0;
  keys("lr_warmup_steps", &c.num_warmup_steps, 0, std::int64_t{1} << 40,
       "updates over which the learning rate rises from 0");
  keys("lr_num_cycles", &c.num_cycles, 0.0, 1e6,
       "cosine: periods, of which 0.5 falls from 1 to 0; cosine_with_restarts: falls from 1 to 0, "
       "by default 1");
  if (c.schedule == LrSchedule::kPolynomial) {
    keys("lr_power", &c.power, 1e-6, 1e3, "polynomial only: the power of its fall");
    keys("lr_end", &c.lr_end, 0.0, 1e3, "polynomial only: the learning rate at its end");
  }
  return c;
}

void CheckBaseLr(const LrScheduleConfig& config, double base_lr) {
  if (config.schedule != LrSchedule::kPolynomial || base_lr > config.lr_end) return;
  throw ConfigError(
      "training.lr_end is {}, the final rate of polynomial; expected less than optimizer.lr, {}",
      config.lr_end, base_lr);
}

double LrFactor(const LrScheduleConfig& config, std::int64_t step, std::int64_t num_training_steps,
                double base_lr) {
  if (config.schedule == LrSchedule::kConstant) return 1.0;
  const std::int64_t warmup = config.num_warmup_steps;
  if (step < warmup) return static_cast<double>(step) / static_cast<double>(warmup);

  const auto decay_steps =
      static_cast<double>(std::max<std::int64_t>(1, num_training_steps - warmup));
  const double progress = static_cast<double>(step - warmup) / decay_steps;
  const double cycles = config.num_cycles * progress;
  switch (config.schedule) {
    case LrSchedule::kConstant:
    case LrSchedule::kConstantWithWarmup:
      return 1.0;
    case LrSchedule::kLinear:
      return std::max(0.0, static_cast<double>(num_training_steps - step) / decay_steps);
    case LrSchedule::kCosine:
      return std::max(0.0, 0.5 * (1.0 + std::cos(2.0 * std::numbers::pi * cycles)));
    case LrSchedule::kCosineWithRestarts:
      if (progress >= 1.0) return 0.0;
      return 0.5 * (1.0 + std::cos(std::numbers::pi * std::fmod(cycles, 1.0)));
    case LrSchedule::kPolynomial:
      return PolynomialFactor(config, progress, base_lr);
  }
  throw InternalError("unknown lr_scheduler");
}

}  // namespace dp_bench::train
