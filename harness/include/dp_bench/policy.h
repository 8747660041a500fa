// The contract of a policy plugin. Of the SDK headers, this one, tensor.h, normalizer.h and
// stage_trace.h include LibTorch.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <map>
#include <string>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/export.h"
#include "dp_bench/normalizer.h"
#include "dp_bench/spec.h"
#include "dp_bench/tensor.h"

namespace dp_bench {

/// A training batch in raw units, on the policy's device.
struct Batch {
  TensorMap obs;         // key -> [B, To, shape...]; rgb uint8 [B, To, C, H, W]; more than To
                         // steps if n_train_obs_steps of the policy says so
  torch::Tensor action;  // [B, T, Da] float32
  torch::Tensor is_pad;  // [B, T] bool: the step repeats the edge of its episode
};

/// What `ComputeLoss` returns.
struct LossOutput {
  torch::Tensor loss;                          // scalar with gradient
  std::map<std::string, torch::Tensor> parts;  // named scalars for the log, detached
};

/// What is executed while a plan is computed, and how the plan takes account of it (Black et al.
/// 2025, "Real-Time Execution of Action Chunking Flow Policies").
struct ChunkPrefix {
  torch::Tensor actions;  // [B, Ta, Da] float32 in raw units: the rest of the chunk in execution,
                          // whose first action belongs to the current step; 0 behind its end
  torch::Tensor weights;  // [B, Ta] float32: how closely the plan follows them, 0 behind the end
  bool is_given = false;  // the plan contains the actions with weight 1 (a policy that was trained
                          // with prefixes, see Policy::max_prefix); false: it is guided
  double max_guidance_weight = 5.0;
  bool has_full_jacobian = false;  // guidance goes back through the network; false: its Jacobian
                                   // counts as 1
};

/// The numbers in which PredictAction multiplies (config key policy.weights).
enum class WeightFormat : std::uint8_t {
  kFloat32,
  kBf16,  // weights and activations are rounded to bfloat16 for each product, sums are float32
  kInt8,  // they are rounded to 8 bits in each large product: a row of a weight by its largest
          // magnitude, an activation by the range of its batch row; small products are in float32
};

/// A diffusion policy, or any other. It is trained on batches and predicts action chunks. Used by
/// one thread at a time.
class DPB_API Policy {
 public:
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;
  virtual ~Policy();

  virtual const PolicySpec& spec() const = 0;

  /// Copies the numbers to the device that the module is on. Must be called before ComputeLoss and
  /// PredictAction, and again after the module was moved; throws Error{kData} if a key of
  /// shape_meta is missing.
  virtual void SetNormalizer(const Normalizer& normalizer) = 0;

  /// Loss of one batch, with gradient. All randomness (noise, timesteps, crops, dropout) comes from
  /// `noise`, whose rows are the rows of the batch.
  virtual LossOutput ComputeLoss(const Batch& batch, NoiseSource& noise) = 0;

  /// One action chunk per row, in raw units: [B, Ta, Da] float32. `obs`: To steps. Row i depends
  /// only on obs row i and noise row i. Runs without gradient, in evaluation mode.
  virtual torch::Tensor PredictAction(const TensorMap& obs, NoiseSource& noise) = 0;

  /// Like PredictAction, but the plan takes account of the actions of `prefix`. Only if
  /// can_continue_chunks().
  virtual torch::Tensor ContinueAction(const TensorMap& obs, const ChunkPrefix& prefix,
                                       NoiseSource& noise);
  virtual bool can_continue_chunks() const { return false; }

  /// The actions at the beginning of a chunk that ChunkPrefix may give.
  virtual int max_prefix() const { return 0; }

  /// Parameters and buffers; the owner moves it between devices and loads its weights.
  virtual torch::nn::Module& module() = 0;

  /// Called after the weights changed outside of ComputeLoss (optimizer step, load) and before
  /// PredictAction. Drops everything that was computed from the old weights.
  virtual void WeightsChanged() {}

  /// PredictAction uses weights of this format from now on. Throws Error{kConfig} if the policy
  /// cannot, which is the default for every format but float32. Training always uses float32
  /// weights.
  virtual void SetWeightFormat(WeightFormat format);

  /// The observation steps of a training batch: To, and up to T for a policy that also learns from
  /// observations after the current step.
  virtual int n_train_obs_steps() const { return spec().horizons.n_obs_steps; }

  /// From now on it also learns from the answers of other policies with a network like its own
  /// (consistency distillation). `teacher` is trained and has its normalizer; this policy begins
  /// with its weights. `average` has the averaged weights of this policy. Both are on its device
  /// and outlive its training. Throws Error{kConfig} if it cannot learn from them, which is the
  /// default.
  virtual void LearnFrom(Policy& teacher, Policy& average);

  /// Whether it has parameters to train. If not, `eval --policy` rolls it out without a checkpoint:
  /// a script, or a policy behind a server.
  virtual bool is_trainable() const { return true; }

  /// Why rows of the last PredictAction have no actions, in the order of the rows, "" for those
  /// that have. The actions of the others are NaN, and their episodes end with this reason. Empty:
  /// all rows have actions.
  virtual std::vector<std::string> RowFaults() const { return {}; }

  /// What decides its actions beside config, weights and code, as a JSON object for the manifest of
  /// a run: for example what a server says about itself. "": nothing.
  virtual std::string Provenance() const { return ""; }

 protected:
  Policy() = default;
};

}  // namespace dp_bench
