// See learning_checks.h.
#include "inspect/learning_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "plugin/guarded_policy.h"

namespace dp_bench::inspect {
namespace {

using torch::Tensor;

constexpr double kMaxDeadShare = 0.5;
constexpr int kLastLosses = 5;

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

bool Learns(const OverfitRun& run) { return run.ratio() < 0.9; }

std::string Describe(const OverfitRun& run, double lr) {
  return fmt::format("lr {:.2g}: {:.4g} to {:.4g}", lr, run.first_loss, run.last_loss);
}

Finding CheckGradients(const OverfitRun& run) {
  const Finding hypothesis = {.id = "learning.no_gradient",
                              .claim = "parts of the network get no gradient",
                              .advice =
                                  "find what cuts them off: a detached tensor, an unused "
                                  "observation, a saturated unit",
                              .config_key = "policy.params"};
  std::vector<std::string> found;
  std::vector<std::string> norms;
  for (const auto& [part, norm] : run.grad_norms) {
    norms.push_back(fmt::format("{} {:.2g}", part, norm));
    if (!(norm > 0.0)) found.push_back(part);
  }
  return Decide(hypothesis, !found.empty(),
                found.empty() ? fmt::format("largest norms: {}", fmt::join(norms, ", "))
                              : fmt::format("always 0: {}", fmt::join(found, ", ")));
}

Finding CheckDeadUnits(const OverfitRun& run) {
  const Finding hypothesis = {.id = "learning.dead_units",
                              .claim = "most units of a part are dead",
                              .advice =
                                  "a lower learning rate, other initial weights, or inputs "
                                  "in range",
                              .config_key = "optimizer.lr",
                              .certainty = Certainty::kLikely};
  std::vector<std::string> found;
  double largest = 0.0;
  for (const auto& [part, share] : run.dead_shares) {
    largest = std::max(largest, share);
    if (share > kMaxDeadShare) found.push_back(fmt::format("{:.0f} % of {}", 100.0 * share, part));
  }
  return Decide(hypothesis, !found.empty(),
                found.empty() ? fmt::format("at most {:.1f} % without gradient", 100.0 * largest)
                              : fmt::format("without gradient: {}", fmt::join(found, ", ")));
}

}  // namespace

OverfitRun Overfit(const MakePolicy& make_policy, const train::OptimizerConfig& optimizer,
                   const Probe& probe, double lr_scale, int n_updates) {
  const std::unique_ptr<Policy> policy = make_policy();
  train::FreezeParameters(policy->module(), optimizer);
  train::Optimizer updates(optimizer, train::MakeParameterGroups(policy->module(), optimizer));
  policy->module().train();
  GradientRecord gradients;
  std::vector<double> losses;
  for (int i = 0; i < n_updates; ++i) {
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

Findings CheckLearning(const MakePolicy& make_policy, const train::OptimizerConfig& optimizer,
                       const Probe& probe, int n_updates) {
  const Finding cannot = {.id = "learning.cannot_overfit",
                          .claim = "the network cannot learn even one batch",
                          .advice =
                              "check which parameters are trained, and whether the loss "
                              "depends on them",
                          .config_key = "policy.params"};
  const Finding too_high = {.id = "learning.lr_too_high",
                            .claim = "the learning rate is too high",
                            .advice = "a tenth of it, or less",
                            .config_key = "optimizer.lr",
                            .certainty = Certainty::kLikely};
  const Finding too_low = {.id = "learning.lr_too_low",
                           .claim = "the learning rate is too low",
                           .advice = "a hundred times as much",
                           .config_key = "optimizer.lr",
                           .certainty = Certainty::kLikely};
  const OverfitRun run = Overfit(make_policy, optimizer, probe, 1.0, n_updates);
  const OverfitRun lower = Overfit(make_policy, optimizer, probe, 0.01, n_updates);
  std::string evidence =
      fmt::format("{} updates on one batch, {}, {}", n_updates, Describe(run, optimizer.lr),
                  Describe(lower, 0.01 * optimizer.lr));
  bool learns_at_higher = false;
  if (!Learns(run)) {
    const OverfitRun higher = Overfit(make_policy, optimizer, probe, 100.0, n_updates);
    learns_at_higher = Learns(higher);
    evidence += ", " + Describe(higher, 100.0 * optimizer.lr);
  }
  const bool is_better_lower = lower.ratio() < 0.5 * run.ratio() && !(run.ratio() < 0.3);
  const bool is_too_high = is_better_lower || (!Learns(run) && Learns(lower));
  return {CheckGradients(run), CheckDeadUnits(run),
          Decide(cannot, !Learns(run) && !Learns(lower) && !learns_at_higher, evidence),
          Decide(too_high, is_too_high, evidence),
          Decide(too_low, !Learns(run) && !Learns(lower) && learns_at_higher, evidence)};
}

}  // namespace dp_bench::inspect
