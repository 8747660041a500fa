// Whether a network can learn at all: a few updates on one batch with fixed noise. Includes
// LibTorch.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "dp_bench/policy.h"
#include "inspect/finding.h"
#include "inspect/probe.h"
#include "train/optimizer.h"

namespace dp_bench::inspect {

/// Creates a new policy with its normalizer, with the same weights each time.
using MakePolicy = std::function<std::unique_ptr<Policy>()>;

/// The result of some updates on one batch.
struct OverfitRun {
  double first_loss = 0.0;
  double last_loss = 0.0;                    // mean of the last five
  std::map<std::string, double> grad_norms;  // by part of the network, the largest over all updates
  std::map<std::string, double> dead_shares;  // by part: share of values whose gradient stayed 0

  double ratio() const { return last_loss / first_loss; }
};

/// Runs `n_updates` of the optimizer at a constant rate of `lr_scale` times the config's.
OverfitRun Overfit(const MakePolicy& make_policy, const train::OptimizerConfig& optimizer,
                   const Probe& probe, double lr_scale, int n_updates);

/// All checks of this file.
Findings CheckLearning(const MakePolicy& make_policy, const train::OptimizerConfig& optimizer,
                       const Probe& probe, int n_updates = 40);

}  // namespace dp_bench::inspect
