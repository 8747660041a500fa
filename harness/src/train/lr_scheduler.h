// The learning rate as a pure function of the optimizer step: there is nothing to save or resume.
#pragma once

#include <cstdint>
#include <map>

#include "dp_bench/config.h"

namespace dp_bench::train {

enum class LrSchedule {
  kConstant,
  kConstantWithWarmup,
  kLinear,
  kCosine,
  kCosineWithRestarts,
  kPolynomial,
  kPiecewiseConstant
};

/// Names, formulas and defaults are those of diffusers' get_scheduler.
struct LrScheduleConfig {
  LrSchedule schedule = LrSchedule::kCosine;
  std::int64_t num_warmup_steps = 500;
  double num_cycles = 0.5;  // cosine: periods after the warm-up, 0.5 falls from 1 to 0 (default);
                            // cosine_with_restarts: falls from 1 to 0 (default 1)
  double power = 1.0;       // polynomial
  double lr_end = 1e-7;     // polynomial: the rate at the end, absolute
  std::map<std::int64_t, double> step_rules = {};  // piecewise_constant: factor before this step
  double last_factor = 1.0;                        // piecewise_constant: after all of them

  /// Reads "lr_scheduler" (constant, constant_with_warmup, linear, cosine, cosine_with_restarts,
  /// polynomial, piecewise_constant), "lr_warmup_steps" and "lr_num_cycles". For polynomial also
  /// "lr_power" and "lr_end". For piecewise_constant "lr_step_rules", such as "1:10,0.1:20,0.01": 1
  /// before step 10, 0.1 before step 20, then 0.01. Throws Error{kConfig} for a syntax error in the
  /// rules.
  static LrScheduleConfig FromConfig(const Config& config);
};

/// Throws Error{kConfig} unless polynomial starts above its end: `base_lr` > lr_end.
void CheckBaseLr(const LrScheduleConfig& config, double base_lr);

/// The factor on the base learning rate `base_lr` at optimizer step `step` (0 for the first one).
/// In [0, 1], except with piecewise_constant rules. Only polynomial depends on `base_lr`.
double LrFactor(const LrScheduleConfig& config, std::int64_t step, std::int64_t num_training_steps,
                double base_lr);

}  // namespace dp_bench::train
