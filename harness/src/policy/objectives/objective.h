// What the network of a policy learns, and how action sequences are sampled from it. There is one
// class per objective; the network, the observations and the loss belong to DiffusionPolicy.
#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/tensor.h"
#include "policy/sampling.h"

namespace dp_bench::policy {

/// One evaluation of the network in a training step. D: the channels of a sequence, which are Da,
/// or Da + Do with inpainting.
struct TrainingPass {
  torch::Tensor noisy;        // [B, T, D]: goes into the network
  torch::Tensor times;        // [B] int64 or float32: goes into the network
  torch::Tensor target;       // [B, T, D]: what the network should answer
  torch::Tensor noise;        // [B, T, D]: in `noisy`, for the stage trace; may be undefined
  torch::Tensor row_weights;  // [B]: what the rows count in the loss; undefined: 1
  torch::Tensor is_given;     // [B, T, 1]: 1 for steps that are no part of the loss, because the
                              // network is given their actions; undefined: none
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

  /// How sequences are sampled: one step per evaluation of the network.
  virtual std::vector<SamplerStep> steps() const = 0;

  /// Whether sampling starts from noise, or from zeros.
  virtual bool starts_from_noise() const { return true; }

  /// The times that go into the network are in this unit.
  virtual double time_unit() const { return 1.0; }
};

/// Reads `objective` and the section of its name from the params of a policy; `noise_scheduler` is
/// the section of diffusion. Sections of other objectives are checked and not used. Throws
/// Error{kConfig} for settings that the objective does not have.
std::unique_ptr<Objective> MakeObjective(const Config& params);

/// The factor between the times of objectives whose time runs from 0 to 1 and the times that go
/// into the network. Its sinusoids then see the range that 100 training timesteps give them.
inline constexpr double kNetworkTime = 100.0;

/// The objectives that need nothing but their own section of the params.
std::unique_ptr<Objective> MakeFlowMatching(const Config& section);
std::unique_ptr<Objective> MakeMip(const Config& section);

/// The objective without settings.
std::unique_ptr<Objective> MakeRegression();

}  // namespace dp_bench::policy
