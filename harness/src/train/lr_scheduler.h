// The learning rate as a pure function of the optimiser step: nothing to save, nothing to resume.
#pragma once

#include <cstdint>

#include "dp_bench/config.h"

namespace dp_bench {

enum class LrSchedule { kConstant, kConstantWithWarmup, kLinear, kCosine };

/// Names and formulas are those of diffusers' get_scheduler.
struct LrScheduleConfig {
  LrSchedule schedule = LrSchedule::kCosine;
  std::int64_t num_warmup_steps = 500;
  double num_cycles = 0.5;  // cosine: periods after the warm-up; 0.5 falls from 1 to 0

  /// Reads "lr_scheduler" (constant, constant_with_warmup, linear, cosine), "lr_warmup_steps" and
  /// "lr_num_cycles".
  static LrScheduleConfig FromConfig(const Config& config);
};

/// The factor on the base learning rate at optimiser step `step` (0 for the first one), in [0, 1].
double LrFactor(const LrScheduleConfig& config, std::int64_t step, std::int64_t num_training_steps);

}  // namespace dp_bench
