// Learning-rate schedules with linear warm-up, with the formulas of diffusers.optimization.
#include "train/lr_scheduler.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "dp_bench/error.h"

namespace dp_bench {

LrScheduleConfig LrScheduleConfig::FromConfig(const Config& config) {
  LrScheduleConfig c;
  const std::string name =
      config.GetChoice("lr_scheduler", {"cosine", "linear", "constant_with_warmup", "constant"});
  if (name == "linear") c.schedule = LrSchedule::kLinear;
  if (name == "constant_with_warmup") c.schedule = LrSchedule::kConstantWithWarmup;
  if (name == "constant") c.schedule = LrSchedule::kConstant;
  c.num_warmup_steps =
      config.GetInRange("lr_warmup_steps", c.num_warmup_steps, 0, std::int64_t{1} << 40);
  c.num_cycles = config.GetInRange("lr_num_cycles", c.num_cycles, 0.0, 1e6);
  return c;
}

double LrFactor(const LrScheduleConfig& config, std::int64_t step,
                std::int64_t num_training_steps) {
  if (config.schedule == LrSchedule::kConstant) return 1.0;
  const std::int64_t warmup = config.num_warmup_steps;
  if (step < warmup) return static_cast<double>(step) / static_cast<double>(warmup);

  const auto decay_steps =
      static_cast<double>(std::max<std::int64_t>(1, num_training_steps - warmup));
  switch (config.schedule) {
    case LrSchedule::kConstant:
    case LrSchedule::kConstantWithWarmup:
      return 1.0;
    case LrSchedule::kLinear:
      return std::max(0.0, static_cast<double>(num_training_steps - step) / decay_steps);
    case LrSchedule::kCosine: {
      const double progress = static_cast<double>(step - warmup) / decay_steps;
      const double cycles = config.num_cycles * progress;
      return std::max(0.0, 0.5 * (1.0 + std::cos(2.0 * std::numbers::pi * cycles)));
    }
  }
  throw Error(ErrorCode::kInternal, "unknown lr_scheduler");
}

}  // namespace dp_bench
