// Learning-rate schedules with linear warm-up, with the formulas of diffusers.optimization.
#include "train/lr_scheduler.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>

#include "core/errors.h"
#include "dp_bench/config_keys.h"

namespace dp_bench::train {
namespace {

/// Parses all of `text` as a number, ignoring surrounding blanks.
template <class Number>
std::optional<Number> ParseNumber(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  Number number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<double> ParseFactor(std::string_view text) {
  const auto factor = ParseNumber<double>(text);
  return factor && std::isfinite(*factor) && *factor >= 0.0 ? factor : std::nullopt;
}

/// Parses "1:10,0.1:20,0.01" as step_rules {10: 1, 20: 0.1} and last_factor 0.01; false on a syntax
/// error.
bool ParseStepRules(std::string_view text, LrScheduleConfig* c) {
  for (auto comma = text.find(','); comma != text.npos; comma = text.find(',')) {
    const std::string_view rule = text.substr(0, comma);
    const auto colon = std::min(rule.find(':'), rule.size());
    const auto factor = ParseFactor(rule.substr(0, colon));
    const auto step = ParseNumber<std::int64_t>(rule.substr(std::min(colon + 1, rule.size())));
    if (!factor || !step || *step < 1) return false;
    c->step_rules[*step] = *factor;
    text.remove_prefix(comma + 1);
  }
  const auto last = ParseFactor(text);
  c->last_factor = last.value_or(1.0);
  return last.has_value();
}

void ReadStepRules(const Config& config, LrScheduleConfig* c) {
  const auto text = config.Require<std::string>("lr_step_rules",
                                                "piecewise_constant only: factors and the steps "
                                                "before which they hold; 1:10,0.1:20,0.01 is 1 "
                                                "before step 10, 0.1 before step 20, then 0.01");
  if (ParseStepRules(text, c)) return;
  throw ConfigError(
      "{}: expected '<factor>:<before this step>, ..., <factor after them>' such as "
      "'1:1000,0.1:2000,0.01', found '{}'",
      config.Where("lr_step_rules"), text);
}

double StepRuleFactor(const LrScheduleConfig& config, std::int64_t step) {
  const auto rule = config.step_rules.upper_bound(step);
  return rule == config.step_rules.end() ? config.last_factor : rule->second;
}

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
               {"polynomial", LrSchedule::kPolynomial},
               {"piecewise_constant", LrSchedule::kPiecewiseConstant}},
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
  if (c.schedule == LrSchedule::kPiecewiseConstant) ReadStepRules(config, &c);
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
  if (config.schedule == LrSchedule::kPiecewiseConstant) return StepRuleFactor(config, step);
  const std::int64_t warmup = config.num_warmup_steps;
  if (step < warmup) return static_cast<double>(step) / static_cast<double>(warmup);

  const auto decay_steps =
      static_cast<double>(std::max<std::int64_t>(1, num_training_steps - warmup));
  const double progress = static_cast<double>(step - warmup) / decay_steps;
  const double cycles = config.num_cycles * progress;
  switch (config.schedule) {
    case LrSchedule::kConstant:
    case LrSchedule::kPiecewiseConstant:
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
