// Trains the head that corrects a frozen policy's chunks at every control step (A2C2). Includes
// LibTorch.
#pragma once

#include <cstdint>
#include <functional>

#include "data/loader.h"
#include "dp_bench/array.h"
#include "dp_bench/normalizer.h"
#include "dp_bench/policy.h"

namespace dp_bench::train {

/// Where the right action of a step comes from: the dataset, or the first action of a new plan
/// from that step's observations. The latter knows what to do in states that demonstrations never
/// visit, such as those of rollouts with a delay.
enum class CorrectionTeacher : std::uint8_t { kDemonstrations, kPlans };

struct CorrectionTrainingOptions {
  CorrectionTeacher teacher = CorrectionTeacher::kDemonstrations;
  int n_steps = 2000;
  std::int64_t batch_size = 128;  // sequences; each has n_action_steps samples
  std::int64_t n_hidden = 256;    // in each of two layers
  double lr = 1e-3;               // falls to 0 as a cosine
  std::uint64_t seed = 42;
};

/// Called after each step with its number, from 1, and its loss; false ends the training.
using CorrectionProgress = std::function<bool(int step, double loss)>;

/// For each sequence of `loader`, whose observations have all T steps: the policy plans from the
/// first To, and for each action of the chunk the head learns, from the To observations before it,
/// what the teacher does instead. There are new plans every few steps, and each step draws from
/// the newest batches of them. Steps of the padding do not count.
/// Returns the tensors of control::CorrectionHead. The policy keeps its weights. Throws
/// Error{kConfig} if the policy observes no low_dim key, Error{kNumeric} if the loss is not finite.
ArrayMap TrainCorrection(Policy& policy, const Normalizer& normalizer, data::BatchLoader& loader,
                         const CorrectionTrainingOptions& options,
                         const CorrectionProgress& progress);

}  // namespace dp_bench::train
