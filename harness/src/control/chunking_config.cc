#include "control/chunking_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "core/errors.h"
#include "dp_bench/config_keys.h"

namespace dp_bench::control {
namespace {

constexpr int kMostSteps = 10'000;
constexpr int kMostSamples = 256;

const std::vector<std::pair<std::string, ChunkingMethod>>& Methods() {
  static const std::vector<std::pair<std::string, ChunkingMethod>> methods = {
      {"naive", ChunkingMethod::kNaive},
      {"hard_prefix", ChunkingMethod::kHardPrefix},
      {"rtc", ChunkingMethod::kRtc},
      {"training_time_rtc", ChunkingMethod::kTrainingTimeRtc},
      {"state_roll_forward", ChunkingMethod::kStateRollForward},
      {"a2c2", ChunkingMethod::kA2c2},
      {"bid", ChunkingMethod::kBid},
  };
  return methods;
}

}  // namespace

std::string_view Name(ChunkingMethod method) {
  const auto found =
      std::ranges::find(Methods(), method, &std::pair<std::string, ChunkingMethod>::second);
  return found->first;
}

std::vector<std::string> ChunkingMethodNames() {
  std::vector<std::string> names;
  for (const auto& [name, method] : Methods()) names.push_back(name);
  return names;
}

ChunkingConfig ChunkingConfig::FromConfig(const Config& section) {
  ChunkingConfig c;
  const ConfigKeys keys(section);
  keys.Choice("method", &c.method, Methods(),
              "how a new chunk follows the actions that are executed while it is computed");
  keys("delay", &c.delay, 0, kMostSteps, "control steps that a plan takes");
  keys("execute", &c.execute, 0, kMostSteps,
       "control steps from one plan to the next; 0 = n_action_steps - delay");
  keys.Choice("jacobian", &c.has_full_jacobian, {{"identity", false}, {"full", true}},
              "rtc and hard_prefix: whether the guidance goes back through the network, as in the "
              "paper, or takes its Jacobian for 1, as LeRobot");
  keys.Choice("schedule", &c.schedule,
              {{"exponential", PrefixSchedule::kExponential},
               {"linear", PrefixSchedule::kLinear},
               {"ones", PrefixSchedule::kOnes}},
              "rtc: how the weight of the old chunk falls behind the delay");
  keys("max_guidance_weight", &c.max_guidance_weight, 0.0, 1000.0,
       "rtc and hard_prefix: bound of the guidance, about the number of denoising steps");
  keys("n_samples", &c.n_samples, 1, kMostSamples, "bid: chunks of which the best is executed");
  keys("corrector", &c.corrector, "a2c2: the file that `dp_bench correct` wrote");
  keys("corrector_sha256", &c.corrector_sha256, "a2c2: of that file; `eval` fills it in");
  if (c.method == ChunkingMethod::kA2c2 && !c.corrector) {
    throw ConfigError("{}: a2c2 needs the file that `dp_bench correct` writes, found none",
                      section.Where("corrector"));
  }
  c.followed = ReadFollowedActions(section.Sub("followed_actions"));
  c.latency = LatencyModel::FromConfig(section.Sub("latency"));
  if (c.latency.is_random() && c.delay > 0) {
    throw ConfigError("{} and {}: expected one of them, found both", section.Where("delay"),
                      section.Where("latency.distribution"));
  }
  const bool is_hard =
      c.method == ChunkingMethod::kHardPrefix || c.method == ChunkingMethod::kTrainingTimeRtc;
  if (is_hard) c.schedule = PrefixSchedule::kZeros;
  return c;
}

std::vector<float> PrefixWeights(int start, int end, int n_steps, PrefixSchedule schedule) {
  start = std::min(start, end);
  std::vector<float> weights(static_cast<std::size_t>(n_steps));
  for (int i = 0; i < std::min(end, n_steps); ++i) {
    double w = i < start ? 1.0 : static_cast<double>(end - i) / (end - start + 1);
    if (schedule == PrefixSchedule::kZeros) w = i < start ? 1.0 : 0.0;
    if (schedule == PrefixSchedule::kOnes) w = 1.0;
    if (schedule == PrefixSchedule::kExponential) w *= std::expm1(w) / (std::numbers::e - 1.0);
    weights[static_cast<std::size_t>(i)] = static_cast<float>(w);
  }
  return weights;
}

}  // namespace dp_bench::control
