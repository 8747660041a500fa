#include "train/correction_training.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include <cmath>
#include <deque>
#include <numbers>
#include <string>
#include <vector>

#include "control/correction_head.h"
#include "core/errors.h"
#include "planner/policy_weights.h"
#include "train/batches.h"

namespace dp_bench::train {
namespace {

using torch::Tensor;

constexpr int kStepsPerPlan = 8;                // each with other samples of the remembered plans
constexpr std::size_t kRememberedBatches = 64;  // of plans

// The head while it is trained, with the names of its tensors: in -> hidden -> hidden -> Da.
torch::nn::Sequential MakeNetwork(std::int64_t n_in, std::int64_t n_hidden, std::int64_t n_out) {
  torch::nn::Sequential network({{"0", torch::nn::Linear(n_in, n_hidden)},
                                 {"relu_0", torch::nn::ReLU()},
                                 {"1", torch::nn::Linear(n_hidden, n_hidden)},
                                 {"relu_1", torch::nn::ReLU()},
                                 {"2", torch::nn::Linear(n_hidden, n_out)}});
  // the first corrections are 0
  const torch::NoGradGuard no_grad;
  for (Tensor& parameter : network->children().back()->parameters()) parameter.zero_();
  return network;
}

// [N, in] in raw units, the corrections that would be right [N, Da], and whether a row counts [N].
struct CorrectionSamples {
  Tensor inputs;
  Tensor targets;
  Tensor counts;
};

// The samples of the newest plans, from which each training step draws: a plan takes far longer
// than a step of the head.
class SampleMemory {
 public:
  void Add(const CorrectionSamples& samples) {
    batches_.push_back(samples);
    if (batches_.size() > kRememberedBatches) batches_.pop_front();
  }

  // As many as a batch of plans has, each from any of the batches.
  CorrectionSamples Draw() const {
    const std::int64_t n_rows = batches_.front().inputs.size(0);
    const auto n_batches = static_cast<std::int64_t>(batches_.size());
    const std::int64_t share = (n_rows + n_batches - 1) / n_batches;
    std::vector<Tensor> inputs;
    std::vector<Tensor> targets;
    std::vector<Tensor> counts;
    for (const CorrectionSamples& batch : batches_) {
      const Tensor rows =
          torch::randint(batch.inputs.size(0), {share}, torch::kInt64).to(batch.inputs.device());
      inputs.push_back(batch.inputs.index_select(0, rows));
      targets.push_back(batch.targets.index_select(0, rows));
      counts.push_back(batch.counts.index_select(0, rows));
    }
    return {torch::cat(inputs), torch::cat(targets), torch::cat(counts)};
  }

 private:
  std::deque<CorrectionSamples> batches_;
};

// Places in the chunk: all, or for the teacher kPlans a few, as each needs a plan.
std::vector<std::int64_t> PlacesFor(const CorrectionTrainingOptions& options,
                                    std::int64_t n_actions) {
  constexpr std::int64_t kPlannedPlaces = 3;
  const Tensor places = options.teacher == CorrectionTeacher::kDemonstrations
                            ? torch::arange(n_actions)
                            : torch::randperm(n_actions).slice(0, 0, kPlannedPlaces);
  const auto* data = places.const_data_ptr<std::int64_t>();
  return {data, data + places.numel()};
}

// One sample for each place of each chunk.
CorrectionSamples SamplesOf(Policy& policy, const Batch& batch, NoiseSource& noise,
                            const CorrectionTrainingOptions& options) {
  const PolicySpec& spec = policy.spec();
  const Horizons& horizons = spec.horizons;
  const std::int64_t n_obs = horizons.n_obs_steps;
  const torch::NoGradGuard no_grad;
  const Tensor chunk = policy.PredictAction(ObservedSteps(batch.obs, n_obs), noise);  // [B, Ta, Da]
  const std::int64_t n_rows = chunk.size(0);
  std::vector<Tensor> inputs;
  std::vector<Tensor> targets;
  std::vector<Tensor> counts;
  for (const std::int64_t place : PlacesFor(options, horizons.n_action_steps)) {
    const TensorMap obs = ObservedSteps(batch.obs, n_obs, place);
    std::vector<Tensor> parts;
    for (const KeySpec& key : spec.shape_meta.obs) {
      if (key.type == KeyType::kLowDim) parts.push_back(obs.at(key.name).reshape({n_rows, -1}));
    }
    const Tensor action = chunk.select(1, place);
    parts.push_back(action);
    const double share = static_cast<double>(place) / horizons.n_action_steps;
    parts.push_back(torch::full({n_rows, 1}, share, action.options()));
    inputs.push_back(torch::cat(parts, 1));
    const Tensor wanted = options.teacher == CorrectionTeacher::kPlans
                              ? policy.PredictAction(obs, noise).select(1, 0)
                              : batch.action.select(1, n_obs - 1 + place);
    targets.push_back(wanted - action);
    counts.push_back(batch.is_pad.select(1, n_obs - 1 + place).logical_not());
  }
  return {torch::cat(inputs), torch::cat(targets), torch::cat(counts)};
}

// Inputs and corrections in the units of the policy's normalizer, so that a dimension which never
// changes in the data has no weight.
struct InputScale {
  Tensor mean;  // [in]
  Tensor std;

  InputScale(const PolicySpec& spec, const Normalizer& normalizer) {
    std::vector<Tensor> means;
    std::vector<Tensor> stds;
    const auto add = [&](const std::string& key, std::int64_t n_steps) {
      const Normalizer::Field& field = normalizer.fields().at(key);
      means.push_back((-field.offset / field.scale).repeat({n_steps}));
      stds.push_back(field.scale.reciprocal().repeat({n_steps}));
    };
    for (const KeySpec& key : spec.shape_meta.obs) {
      if (key.type == KeyType::kLowDim) add(key.name, spec.horizons.n_obs_steps);
    }
    add(spec.shape_meta.action.name, 1);
    means.push_back(torch::zeros({1}, means[0].options()));  // the place in the chunk
    stds.push_back(torch::ones({1}, means[0].options()));
    mean = torch::cat(means);
    std = torch::cat(stds);
  }
  Tensor Apply(const Tensor& inputs) const { return (inputs - mean) / std; }
};

ArrayMap TensorsOf(const torch::nn::Sequential& network, const InputScale& scale) {
  ArrayMap tensors = planner::ModuleState(*network);
  tensors.emplace("input.mean", ToArray(scale.mean.slice(0, 0, -1)));
  tensors.emplace("input.std", ToArray(scale.std.slice(0, 0, -1)));
  return tensors;
}

void RequireLowDim(const PolicySpec& spec) {
  for (const KeySpec& key : spec.shape_meta.obs) {
    if (key.type == KeyType::kLowDim) return;
  }
  throw ConfigError("the policy observes images only: a correction needs a low_dim observation");
}

}  // namespace

ArrayMap TrainCorrection(Policy& policy, const Normalizer& normalizer, data::BatchLoader& loader,
                         const CorrectionTrainingOptions& options,
                         const CorrectionProgress& progress) {
  const PolicySpec& spec = policy.spec();
  RequireLowDim(spec);
  const std::int64_t action_dim = spec.shape_meta.action_dim();
  const torch::Device device = policy.module().parameters().front().device();
  torch::manual_seed(options.seed);
  torch::nn::Sequential network = MakeNetwork(
      control::CorrectionInputs(spec.shape_meta, spec.horizons), options.n_hidden, action_dim);
  network->to(device);
  torch::optim::Adam optimizer(network->parameters(), torch::optim::AdamOptions(options.lr));
  Normalizer of_device = normalizer;
  of_device.To(device);
  const InputScale scale(spec, of_device);
  data::HostBatch host;
  std::uint64_t epoch = 0;
  loader.StartEpoch(epoch);
  SampleMemory memory;
  for (int step = 1; step <= options.n_steps; ++step) {
    if ((step - 1) % kStepsPerPlan == 0) {
      while (!loader.Next(&host)) loader.StartEpoch(++epoch);
      const Batch batch = ToBatch(host, spec.shape_meta, device);
      NoiseSource noise = BatchNoise(options.seed, NoisePurpose::kSampling,
                                     static_cast<std::uint64_t>(step), batch.action.size(0));
      memory.Add(SamplesOf(policy, batch, noise, options));
    }
    const CorrectionSamples samples = memory.Draw();
    const Tensor action_std = scale.std.slice(0, -1 - action_dim, -1);
    const Tensor error =
        network->forward(scale.Apply(samples.inputs)) - samples.targets / action_std;
    const Tensor loss =
        (error.square().mean(1) * samples.counts).sum() / samples.counts.sum().clamp_min(1);
    if (!std::isfinite(loss.item<double>())) {
      throw NumericError("the loss of the correction is not finite at step {}", step);
    }
    const double done = static_cast<double>(step - 1) / options.n_steps;
    static_cast<torch::optim::AdamOptions&>(optimizer.param_groups()[0].options())
        .lr(0.5 * options.lr * (1.0 + std::cos(std::numbers::pi * done)));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (!progress(step, loss.item<double>())) break;
  }
  return TensorsOf(network, scale);
}

}  // namespace dp_bench::train
