// What the network of a policy learns, and how action sequences are sampled from it. There is one
// class per objective; the network, the observations and the loss belong to DiffusionPolicy.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/policy/networks/sampling_plan.h"
#include "dp_bench/tensor.h"

namespace dp_bench::policy {

/// One evaluation of the network in a training step. D: the channels of a sequence, which are Da,
/// or Da + Do with inpainting.
struct TrainingPass {
  torch::Tensor noisy;        // [B, T, D]: goes into the network
  torch::Tensor times;        // [B] int64 or float32: goes into the network
  torch::Tensor target;       // [B, T, D]: what the network should answer
  torch::Tensor noise;        // [B, T, D]: in `noisy`, for the stage trace; may be undefined
  torch::Tensor row_weights;  // [B]: what the rows count in the loss; undefined: 1
};

/// The answer of a network to a sequence [B, T, D] at times [B], without gradient.
using NetworkAnswer =
    std::function<torch::Tensor(const torch::Tensor& sequence, const torch::Tensor& times)>;

/// What training passes are made from.
struct TrainingInputs {
  torch::Tensor x_0;  // [B, T, D]
  NoiseSource& noise;
  NetworkAnswer average;       // the averaged weights; those in training if there are none
  NetworkAnswer teacher = {};  // empty without one
};

/// What a sampler works with.
struct SamplingTools {
  /// The network's output for a sequence [B, T, D] at times()[i].
  std::function<torch::Tensor(const torch::Tensor& sequence, std::size_t i)> predict;
  /// The sequence with the observed steps put back. Without inpainting it changes nothing.
  std::function<torch::Tensor(const torch::Tensor& sequence)> restore_obs;
  NoiseSource& noise;
  std::int64_t action_dim;  // the first channels of a sequence, which stages show
};

class Objective {
 public:
  Objective() = default;
  Objective(const Objective&) = delete;
  Objective& operator=(const Objective&) = delete;
  virtual ~Objective() = default;

  /// From now on, passes are made with the answers of a policy that has this objective. Throws
  /// Error{kConfig} unless the objective can learn from it.
  virtual void LearnFrom(const Objective& teacher);

  /// Draws noise and returns the evaluations of the network whose losses are added.
  virtual std::vector<TrainingPass> Corrupt(const TrainingInputs& inputs) const = 0;

  /// The name of the network's output in the stage trace: "predicted noise".
  virtual const char* prediction_name() const = 0;

  /// The times at which Sample evaluates the network, as they go into it.
  virtual std::vector<double> times() const = 0;

  /// What Sample does, as numbers: one step per evaluation of the network.
  virtual std::vector<SamplerStep> steps() const = 0;

  /// Whether sampling starts from noise, or from zeros.
  virtual bool starts_from_noise() const { return true; }

  /// What sampling starts from: N(0, 1) noise by default.
  virtual torch::Tensor Initial(NoiseSource& noise, at::IntArrayRef shape) const;

  /// From Initial [B, T, D] to x_0. Runs without gradient.
  virtual torch::Tensor Sample(const torch::Tensor& initial, const SamplingTools& tools) const = 0;
};

/// Reads `objective` and the section of its name from the params of a policy; `noise_scheduler` is
/// the section of diffusion. Sections of other objectives are checked and not used. Throws
/// Error{kConfig} for settings that the objective does not have.
std::unique_ptr<Objective> MakeObjective(const Config& params);

/// The factor between the times of objectives whose time runs from 0 to 1 and the times that go
/// into the network. Its sinusoids then see the range that 100 training timesteps give them.
inline constexpr double kNetworkTime = 100.0;

/// The first channels of a sequence [B, T, D], for the stage trace.
torch::Tensor ActionChannels(const torch::Tensor& sequence, const SamplingTools& tools);

/// Notes the time of a step before the network is evaluated for it.
void TraceTime(double time);

/// Notes what a sampler that does not clip makes of a step: the predicted x_0, and the sample.
void TraceSample(const torch::Tensor& x_0, const torch::Tensor& sample, const SamplingTools& tools);

}  // namespace dp_bench::policy
