#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "diagnose/policy_checks.h"
#include "policy/guarded_policy.h"
#include "train/ema.h"
#include "train/train_config.h"

namespace dp_bench::diagnose {
namespace {

using torch::Tensor;

constexpr double kMaxEarlyShare = 0.05;
constexpr std::int64_t kMinRowsForBatchNorm = 32;
constexpr double kMaxDeadShare = 0.5;
constexpr int kUpdates = 40;
constexpr int kLastLosses = 5;

// The result of some updates on one batch.
struct OverfitRun {
  double first_loss = 0.0;
  double last_loss = 0.0;                    // mean of the last five
  std::map<std::string, double> grad_norms;  // by part of the network, the largest over all updates
  std::map<std::string, double> dead_shares;  // by part: share of values whose gradient stayed 0

  double ratio() const { return last_loss / first_loss; }
};

// The learning rate is still warming up when the training ends.
Finding CheckWarmup(const train::TrainingConfig& training, const TrainingLength& length) {
  const bool has_warmup = training.lr_schedule.schedule != train::LrSchedule::kConstant;
  const std::int64_t warmup = has_warmup ? training.lr_schedule.num_warmup_steps : 0;
  return Decide("settings.warmup", 2 * warmup > length.n_updates, "{} of {} updates", warmup,
                length.n_updates);
}

// How much of the averaged weights comes from the first tenth of the training.
Finding CheckEma(const train::EmaConfig& config, std::int64_t n_updates) {
  double early = 1.0;
  for (std::int64_t n = n_updates / 10; n < n_updates; ++n) early *= train::EmaDecay(config, n);
  return Decide(
      "settings.ema", early > kMaxEarlyShare,
      "{:.2g} % of their weight is from the first tenth of {} updates, decay {:.6g} at the end",
      100.0 * early, n_updates, train::EmaDecay(config, n_updates));
}

Finding CheckBatchSize(const TrainingLength& length) {
  return Decide("settings.batch_size", length.n_sequences < length.batch_size,
                "{} sequences, batches of {}", length.n_sequences, length.batch_size);
}

// Batch norms, whose statistics are noisy in small batches and lag behind averaged weights.
Finding CheckBatchNorm(const torch::nn::Module& module, std::int64_t batch_size) {
  std::int64_t n_norms = 0;
  for (const auto& buffer : module.named_buffers()) {
    n_norms += buffer.key().ends_with("num_batches_tracked");  // a frozen one does not count
  }
  return Decide("settings.batch_norm", n_norms > 0 && batch_size < kMinRowsForBatchNorm,
                "{} batch norms, batches of {}", n_norms, batch_size);
}

// Parts that are frozen with their random initial weights.
Finding CheckFrozen(const train::TrainingConfig& training, const Config& config, Policy& policy) {
  if (training.init_checkpoint) {
    return LeaveOpen("settings.frozen_at_random",
                     "the training starts from another training's weights");
  }
  train::FreezeParameters(policy.module(),
                          train::OptimizerConfig::FromConfig(config.Sub("optimizer")));
  std::set<std::string> parts;
  std::int64_t n_frozen = 0;
  for (const auto& parameter : policy.module().named_parameters()) {
    if (parameter.value().requires_grad()) continue;
    n_frozen += parameter.value().numel();
    parts.insert(PartOf(parameter.key()));
  }
  return Decide("settings.frozen_at_random", n_frozen > 0,
                n_frozen == 0
                    ? "every parameter is trained"
                    : fmt::format("{} frozen values in {}", n_frozen, fmt::join(parts, ", ")));
}

// The gradients that were ever nonzero.
class GradientRecord {
 public:
  void Add(torch::nn::Module& module) {
    std::map<std::string, double> squares;
    for (const auto& parameter : module.named_parameters()) {
      if (!parameter.value().requires_grad()) continue;
      const Tensor grad = parameter.value().grad();
      const std::string part = PartOf(parameter.key());
      squares[part] += grad.defined() ? grad.square().sum().item<double>() : 0.0;
      Tensor& seen = seen_[parameter.key()];
      const Tensor is_alive =
          grad.defined() ? grad.ne(0) : torch::zeros_like(parameter.value(), torch::kBool);
      seen = seen.defined() ? seen.logical_or(is_alive) : is_alive;
    }
    for (const auto& [part, square] : squares) {
      norms_[part] = std::max(norms_[part], std::sqrt(square));
    }
  }

  const std::map<std::string, double>& norms() const { return norms_; }

  std::map<std::string, double> DeadShares() const {
    std::map<std::string, double> dead;
    std::map<std::string, double> total;
    for (const auto& [name, seen] : seen_) {
      dead[PartOf(name)] += seen.logical_not().sum().item<double>();
      total[PartOf(name)] += static_cast<double>(seen.numel());
    }
    for (auto& [part, count] : dead) count /= total[part];
    return dead;
  }

 private:
  std::map<std::string, double> norms_;
  std::map<std::string, Tensor> seen_;
};

// Some updates of the optimizer at a constant rate of `lr_scale` times the config's.
OverfitRun Overfit(const MakePolicy& make_policy, const train::OptimizerConfig& optimizer,
                   const Probe& probe, double lr_scale) {
  const std::unique_ptr<Policy> policy = make_policy();
  train::FreezeParameters(policy->module(), optimizer);
  train::Optimizer updates(optimizer, train::MakeParameterGroups(policy->module(), optimizer));
  policy->module().train();
  GradientRecord gradients;
  std::vector<double> losses;
  for (int i = 0; i < kUpdates; ++i) {
    NoiseSource noise = probe.Noise(0);
    updates.ZeroGrad();
    const Tensor loss = policy->ComputeLoss(probe.batch(0), noise).loss;
    plugin::ComputeGradients(*policy, loss);
    gradients.Add(policy->module());
    losses.push_back(loss.item<double>());
    if (!std::isfinite(losses.back())) break;
    updates.Step(optimizer.lr * lr_scale);
    policy->WeightsChanged();
  }
  OverfitRun run = {.first_loss = losses.front(),
                    .grad_norms = gradients.norms(),
                    .dead_shares = gradients.DeadShares()};
  const auto n_last = std::min<std::size_t>(kLastLosses, losses.size());
  for (std::size_t i = losses.size() - n_last; i < losses.size(); ++i) {
    run.last_loss += losses[i] / static_cast<double>(n_last);
  }
  return run;
}

bool Learns(const OverfitRun& run) { return run.ratio() < 0.9; }

std::string Describe(const OverfitRun& run, double lr) {
  return fmt::format("lr {:.2g}: {:.4g} to {:.4g}", lr, run.first_loss, run.last_loss);
}

Finding CheckGradients(const OverfitRun& run) {
  std::vector<std::string> found;
  std::vector<std::string> norms;
  for (const auto& [part, norm] : run.grad_norms) {
    norms.push_back(fmt::format("{} {:.2g}", part, norm));
    if (!(norm > 0.0)) found.push_back(part);
  }
  return DecideByFaults("learning.no_gradient", found,
                        "always 0: ", fmt::format("largest norms: {}", fmt::join(norms, ", ")));
}

Finding CheckDeadUnits(const OverfitRun& run) {
  std::vector<std::string> found;
  double largest = 0.0;
  for (const auto& [part, share] : run.dead_shares) {
    largest = std::max(largest, share);
    if (share > kMaxDeadShare) found.push_back(fmt::format("{:.0f} % of {}", 100.0 * share, part));
  }
  return DecideByFaults("learning.dead_units", found, "without gradient: ",
                        fmt::format("at most {:.1f} % without gradient", 100.0 * largest));
}

}  // namespace

TrainingLength LengthOf(const Config& config, std::int64_t n_sequences) {
  const auto training = train::TrainingConfig::FromConfig(config.Sub("training"));
  const auto loader = train::DataLoaderConfig::FromConfig(config.Sub("dataloader"), true);
  std::int64_t batches = (n_sequences + loader.batch_size - 1) / loader.batch_size;
  if (training.max_train_steps) batches = std::min(batches, *training.max_train_steps);
  const std::int64_t every = training.gradient_accumulate_every;
  return {.n_sequences = n_sequences,
          .batch_size = loader.batch_size,
          .n_updates = training.num_epochs * ((batches + every - 1) / every)};
}

Findings CheckSettings(const Config& config, Policy& policy, const TrainingLength& length) {
  const auto training = train::TrainingConfig::FromConfig(config.Sub("training"));
  Findings findings = {CheckWarmup(training, length), CheckBatchSize(length),
                       CheckBatchNorm(policy.module(), length.batch_size),
                       CheckFrozen(training, config, policy)};
  if (training.use_ema) {
    findings.push_back(CheckEma(train::EmaConfig::FromConfig(config.Sub("ema")), length.n_updates));
  }
  return findings;
}

Findings CheckLearning(const MakePolicy& make_policy, const train::OptimizerConfig& optimizer,
                       const Probe& probe) {
  const OverfitRun run = Overfit(make_policy, optimizer, probe, 1.0);
  const OverfitRun lower = Overfit(make_policy, optimizer, probe, 0.01);
  std::string evidence =
      fmt::format("{} updates on one batch, {}, {}", kUpdates, Describe(run, optimizer.lr),
                  Describe(lower, 0.01 * optimizer.lr));
  bool learns_at_higher = false;
  if (!Learns(run)) {
    const OverfitRun higher = Overfit(make_policy, optimizer, probe, 100.0);
    learns_at_higher = Learns(higher);
    evidence += ", " + Describe(higher, 100.0 * optimizer.lr);
  }
  const bool learns_at_none = !Learns(run) && !Learns(lower) && !learns_at_higher;
  const bool is_better_lower = lower.ratio() < 0.5 * run.ratio() && !(run.ratio() < 0.3);
  const bool is_too_high = is_better_lower || (!Learns(run) && Learns(lower));
  return {
      CheckGradients(run), CheckDeadUnits(run),
      Decide("learning.cannot_overfit", learns_at_none, evidence),
      Decide("learning.lr_too_high", is_too_high, evidence),
      Decide("learning.lr_too_low", !Learns(run) && !Learns(lower) && learns_at_higher, evidence)};
}

}  // namespace dp_bench::diagnose
