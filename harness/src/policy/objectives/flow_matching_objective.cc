// Flow matching on straight paths (Lipman et al. 2023; Liu et al. 2023, rectified flow): the
// network learns the velocity with which an action sequence turns into noise. Settings and
// conventions are those of LeRobot.
#include <boost/math/special_functions/beta.hpp>

#include "dp_bench/config_keys.h"
#include "policy/objectives/objective.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;

/// The distribution of the noise level in training. kBeta: 1 - s + s u with u from Beta(alpha,
/// beta) (Black et al. 2024, pi_0, appendix B). kLogitNormal: 1 / (1 + exp(-n)) with normal n
/// (Esser et al. 2024, eq. 19).
enum class FlowTimeDistribution { kBeta, kUniform, kLogitNormal };

struct FlowMatchingConfig {
  bool is_heun = false;  // the sampler; otherwise Euler's method
  int num_inference_steps = 10;
  // true: x_t = t noise + (1 - t) x_0, and the network answers noise - x_0; false: the same path
  // with 1 - t in place of t, and the network answers x_0 - noise
  bool is_noise_at_one = true;
  FlowTimeDistribution time_distribution = FlowTimeDistribution::kBeta;
  double beta_alpha = 1.5;
  double beta_beta = 1.0;
  double beta_s = 0.999;
  double logit_mean = 0.0;
  double logit_std = 1.0;

  static FlowMatchingConfig FromConfig(const Config& config) {
    FlowMatchingConfig c;
    const ConfigKeys keys(config);
    keys.Choice("sampler", &c.is_heun, {{"euler", false}, {"heun", true}},
                "how the velocity is integrated; heun evaluates the network twice per step. It can "
                "be changed without training");
    keys("num_inference_steps", &c.num_inference_steps, 1, 1000,
         "steps from noise to action when actions are planned");
    keys.Choice("convention", &c.is_noise_at_one,
                {{"noise_at_one", true}, {"noise_at_zero", false}},
                "the time at which a sequence is noise; the weights depend on it");
    keys.Choice("time_distribution", &c.time_distribution,
                {{"beta", FlowTimeDistribution::kBeta},
                 {"uniform", FlowTimeDistribution::kUniform},
                 {"logit_normal", FlowTimeDistribution::kLogitNormal}},
                "how noise levels from 0 to 1 are drawn in training; beta: 1 - beta_s + beta_s * u "
                "with u from the distribution Beta(beta_alpha, beta_beta), as pi_0");
    keys("beta_alpha", &c.beta_alpha, 0.01, 100.0, "beta only: more than beta_beta prefers noise");
    keys("beta_beta", &c.beta_beta, 0.01, 100.0, "beta only");
    keys("beta_s", &c.beta_s, 0.01, 1.0, "beta only: 1 minus the lowest noise level that is drawn");
    keys("logit_mean", &c.logit_mean, -10.0, 10.0, "logit_normal only: more than 0 prefers noise");
    keys("logit_std", &c.logit_std, 0.01, 10.0, "logit_normal only");
    return c;
  }
};

class FlowMatchingObjective final : public Objective {
 public:
  explicit FlowMatchingObjective(const FlowMatchingConfig& config) : config_(config) {}

  std::vector<TrainingPass> Corrupt(const TrainingInputs& inputs) const override;
  const char* prediction_name() const override { return "predicted flow"; }
  double time_unit() const override { return kNetworkTime; }

  // Integrates the velocity from noise level 1 to 0 in equal steps.
  std::vector<SamplerStep> steps() const override;

 private:
  Tensor DrawNoiseLevels(NoiseSource& noise) const;  // [B] float32
  double TimeAfter(double done) const {              // a share of the way from noise to action
    return (config_.is_noise_at_one ? 1.0 - done : done) * kNetworkTime;
  }

  FlowMatchingConfig config_;
};

Tensor FlowMatchingObjective::DrawNoiseLevels(NoiseSource& noise) const {
  constexpr StreamId kStream = StreamId::kDiffusionTimestep;
  const std::int64_t rows = noise.batch_size();
  switch (config_.time_distribution) {
    case FlowTimeDistribution::kUniform:
      return noise.Uniform(kStream, {rows});
    case FlowTimeDistribution::kLogitNormal:
      return torch::sigmoid(noise.Randn(kStream, {rows}) * config_.logit_std + config_.logit_mean);
    case FlowTimeDistribution::kBeta:
      break;
  }
  // the inverse of the distribution function, row by row
  Tensor levels = noise.Uniform(kStream, {rows});
  float* level = levels.mutable_data_ptr<float>();
  for (std::int64_t row = 0; row < rows; ++row) {
    const double u = boost::math::ibeta_inv(config_.beta_alpha, config_.beta_beta,
                                            static_cast<double>(level[row]));
    level[row] = static_cast<float>(1.0 - config_.beta_s + config_.beta_s * u);
  }
  return levels;
}

std::vector<TrainingPass> FlowMatchingObjective::Corrupt(const TrainingInputs& inputs) const {
  const Tensor& x_0 = inputs.x_0;
  const Tensor epsilon = inputs.noise.Randn(StreamId::kTrainingNoise, x_0.sizes()).to(x_0.device());
  const Tensor levels = DrawNoiseLevels(inputs.noise).to(x_0.device());
  const Tensor of_rows = levels.view({-1, 1, 1});
  return {{.noisy = of_rows * epsilon + (1.0 - of_rows) * x_0,
           .times = (config_.is_noise_at_one ? levels : 1.0 - levels) * kNetworkTime,
           .target = config_.is_noise_at_one ? epsilon - x_0 : x_0 - epsilon,
           .noise = epsilon}};
}

std::vector<SamplerStep> FlowMatchingObjective::steps() const {
  const int n = config_.num_inference_steps;
  const double step = 1.0 / n;
  const double sign = config_.is_noise_at_one ? 1.0 : -1.0;  // of the output, to point to noise
  std::vector<SamplerStep> steps;
  for (int i = 0; i < n; ++i) {
    const double done = static_cast<double>(i) / n;
    const double level = 1.0 - done;
    steps.push_back({.time = TimeAfter(done),
                     .x0_from_sample = 1.0,
                     .x0_from_output = -sign * level,
                     .next_from_sample = 1.0,
                     .next_from_output = -sign * step,
                     .signal_level = done,
                     .noise_level = level});
    if (!config_.is_heun) continue;
    // half of the step is done with the first velocity, half with that at its end
    const double done_after = static_cast<double>(i + 1) / n;
    steps.push_back({.time = TimeAfter(done_after),
                     .x0_from_sample = 1.0,
                     .x0_from_output = -sign * (level - step),
                     .next_from_sample = 0.5,
                     .next_from_output = -0.5 * sign * step,
                     .next_from_last_sample = 0.5,
                     .signal_level = done_after,
                     .noise_level = level - step});
  }
  return steps;
}

}  // namespace

std::unique_ptr<Objective> MakeFlowMatching(const Config& section) {
  return std::make_unique<FlowMatchingObjective>(FlowMatchingConfig::FromConfig(section));
}

}  // namespace dp_bench::policy
