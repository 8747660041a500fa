// The gradient scaler of float16 training (Micikevicius et al. 2018, "Mixed precision training").
// It scales the loss up so that small gradients do not vanish in float16, and skips an update whose
// gradients overflowed. Rules and numbers are those of torch.amp.GradScaler.
#pragma once

#include <vector>

#include "train/optimizer.h"
#include "train/train_state.h"

namespace dp_bench::train {

/// The number of updates that may be skipped in a row: by then the scale has fallen from its start
/// to 2^-16.
constexpr int kMaxSkipsInARow = 32;

/// Divides the gradients by `scale`. False if any of them is not finite: the update must then be
/// skipped.
bool UnscaleGradients(const std::vector<ParameterGroup>& groups, double scale);

/// The scale of the next step: half of it after gradients that were not finite, twice it after
/// 2,000 updates in a row, unless that overflows.
void UpdateScale(bool is_finite, GradScalerState* state);

}  // namespace dp_bench::train
