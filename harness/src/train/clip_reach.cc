// See clip_reach.h.
#include "train/clip_reach.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/console.h"
#include "policy/normalize_mode.h"

namespace dp_bench::train {

double ClipReach::largest() const { return std::max(std::abs(low), std::abs(high)); }

std::string ClipReach::InWords() const {
  const std::string data =
      fmt::format("{} maps the actions to [{:.3g}, {:.3g}]", policy::NameOf(mode), low, high);
  if (std::isinf(range)) return data + "; predictions are not clipped";
  const std::string clip = fmt::format("{}; predictions are clipped to +-{:g}", data, range);
  if (n_cut == 0) return clip + ", which cuts none of them";
  return fmt::format("{}, which cuts {} of {} dimensions; +-{:.3g} cuts none", clip, n_cut, n_dims,
                     largest());
}

std::optional<ClipReach> ActionReach(const Normalizer& normalizer,
                                     const NoiseSchedulerConfig& scheduler) {
  constexpr double kRounding = 1.001;
  const auto found = normalizer.fields().find("action");
  if (found == normalizer.fields().end()) return std::nullopt;
  const Normalizer::Field& field = found->second;
  const torch::Tensor scale = field.scale.to(torch::kCPU, torch::kFloat64);
  const torch::Tensor offset = field.offset.to(torch::kCPU, torch::kFloat64);
  if (field.stats.min.empty() || std::ssize(field.stats.min) != scale.numel()) return std::nullopt;

  ClipReach reach = {.mode = field.mode,
                     .low = std::numeric_limits<double>::infinity(),
                     .high = -std::numeric_limits<double>::infinity(),
                     .range = scheduler.clip_sample ? scheduler.clip_sample_range
                                                    : std::numeric_limits<double>::infinity(),
                     .n_dims = static_cast<int>(scale.numel())};
  for (int i = 0; i < reach.n_dims; ++i) {
    const auto normalized = [&](double x) {
      return x * scale[i].item<double>() + offset[i].item<double>();
    };
    const double low = normalized(field.stats.min[static_cast<std::size_t>(i)]);
    const double high = normalized(field.stats.max[static_cast<std::size_t>(i)]);
    reach.low = std::min(reach.low, low);
    reach.high = std::max(reach.high, high);
    if (std::max(std::abs(low), std::abs(high)) > reach.range * kRounding) ++reach.n_cut;
  }
  return reach;
}

std::optional<NoiseSchedulerConfig> SchedulerOf(const Config& config,
                                                const std::set<std::string>& objectives) {
  if (!config.Has("policy")) return std::nullopt;
  const Config params = config.Sub("policy").Sub("params");
  const std::string objective =
      params.Has("objective") ? params.Get<std::string>("objective") : "diffusion";
  if (!objectives.contains(objective) || !params.Has("noise_scheduler")) return std::nullopt;
  return NoiseSchedulerConfig::FromConfig(params.Sub("noise_scheduler"));
}

void WarnOfCutActions(const Normalizer& normalizer, const Config& config) {
  const auto scheduler = SchedulerOf(config, {"diffusion", "consistency"});  // those that clip
  if (!scheduler) return;
  const auto reach = ActionReach(normalizer, *scheduler);
  if (!reach || reach->n_cut == 0) return;
  core::LogWarning(
      "policy.params.noise_scheduler.clip_sample_range: {}. Sampling cannot reach these actions: "
      "set a larger range, or normalizer.action=limits.",
      reach->InWords());
}

}  // namespace dp_bench::train
