// The learning rate as a pure function of the optimizer step: there is nothing to save or resume.
#pragma once

#include <cstdint>

#include "dp_bench/config.h"

namespace dp_bench::train {

enum class LrSchedule {
  kConstant,
  kConstantWithWarmup,
  kLinear,
  kCosine,
  kCosineWithRestarts,
  kPolynomial
};

/// Names, formulas and defaults are those of diffusers' get_scheduler.
struct LrScheduleConfig {
  LrSchedule schedule = LrSchedule::kCosine;
  std::int64_t num_warmup_steps = 500;
  double num_cycles = 0.5;
  double power = 1.0;
  double lr_end = 1e-7;

  /// Reads the keys "lr_..." of "training".
  static LrScheduleConfig FromConfig(const Config& config);
};

/// Throws Error{kConfig} unless polynomial starts above its end: `base_lr` > lr_end.
void CheckBaseLr(const LrScheduleConfig& config, double base_lr);

/// The factor on the base learning rate `base_lr` at optimizer step `step` (0 for the first one),
/// in [0, 1]. Only polynomial depends on `base_lr`.
double LrFactor(const LrScheduleConfig& config, std::int64_t step, std::int64_t num_training_steps,
                double base_lr);

}  // namespace dp_bench::train
