// The gradient scaler of float16 training (Micikevicius et al. 2018, "Mixed precision training"):
// the loss is scaled up so that small gradients do not vanish in float16, and an update whose
// gradients overflowed is left out. Rules and numbers are those of torch.amp.GradScaler.
#pragma once

#include <vector>

#include "train/optimizer.h"
#include "train/train_state.h"

namespace dp_bench::train {

/// Updates that may be left out one after the other: from its start the scale is 2^-16 by then.
constexpr int kMaxSkipsInARow = 32;

/// Divides the gradients by `scale`. False when one of their numbers is not finite: the update must
/// be left out then.
bool UnscaleGradients(const std::vector<ParameterGroup>& groups, double scale);

/// The scale of the next step: half of it after gradients that were not finite, twice it after
/// 2,000 updates in a row that were done, unless that overflows.
void UpdateScale(bool is_finite, GradScalerState* state);

}  // namespace dp_bench::train
