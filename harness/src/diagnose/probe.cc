// See probe.h.
#include "diagnose/probe.h"

#include <fmt/format.h>

#include <functional>
#include <numeric>
#include <utility>

#include "data/sequence_sampler.h"
#include "policy/kernels/loop_tensors.h"
#include "policy/stage_recorder.h"
#include "train/batches.h"

namespace dp_bench::diagnose {
namespace {

using torch::Tensor;

constexpr std::uint64_t kBatchSeed = 7;  // of the order of rows, and of their noise

// The rows of all batches, with the tables of the last one.
train::ProcessStages Joined(const std::vector<train::ProcessStages>& batches) {
  train::ProcessStages joined = batches.back();
  for (Tensor train::ProcessStages::*const field :
       {&train::ProcessStages::x_0, &train::ProcessStages::noise, &train::ProcessStages::timesteps,
        &train::ProcessStages::x_t, &train::ProcessStages::prediction}) {
    std::vector<Tensor> parts;
    for (const train::ProcessStages& batch : batches) {
      if ((batch.*field).defined()) parts.push_back(batch.*field);
    }
    joined.*field = parts.empty() ? Tensor() : torch::cat(parts);
  }
  return joined;
}

ProcessSample RecordBatches(Policy& policy, const Probe& probe, std::size_t n_batches,
                            train::MixedPrecision precision) {
  // mixed precision is a matter of the training, whose kernels are those with gradients
  const torch::AutoGradMode gradients(precision != train::MixedPrecision::kNo);
  policy.module().eval();
  policy.WeightsChanged();
  std::vector<train::ProcessStages> batches(n_batches);
  ProcessSample sample;
  for (std::size_t i = 0; i < n_batches; ++i) {
    const policy::StageRecorder recorder(std::bind_front(&train::ProcessStages::Note, &batches[i]));
    const policy::AutocastGuard autocast(torch::kCPU, train::ProductType(precision));
    NoiseSource noise = probe.Noise(i);
    sample.losses.push_back(policy.ComputeLoss(probe.batch(i), noise).loss.item<double>());
  }
  static_cast<train::ProcessStages&>(sample) = Joined(batches);
  return sample;
}

}  // namespace

Probe::Probe(const Dataset& dataset, const Policy& policy, const std::vector<bool>& episodes,
             std::int64_t batch_size, int n_batches) {
  const PolicySpec& spec = policy.spec();
  data::BatchLoaderOptions options =
      train::LoaderOptions(policy, {.batch_size = batch_size, .num_workers = 0});
  options.seed = kBatchSeed;
  data::BatchLoader loader(dataset, data::MakeTrainingSampler(dataset, spec.horizons, episodes),
                           options);
  loader.StartEpoch(0);
  for (data::HostBatch host; std::ssize(hosts_) < n_batches && loader.Next(&host);) {
    hosts_.push_back(std::exchange(host, {}));
  }
  for (data::HostBatch& host : hosts_)
    batches_.push_back(train::ToBatch(host, spec.shape_meta, torch::kCPU));
}

NoiseSource Probe::Noise(std::size_t i) const {
  return train::BatchNoise(kBatchSeed, train::NoisePurpose::kValidation, i,
                           batches_[i].action.size(0));
}

double ProcessSample::mean_loss() const {
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}

ProcessSample RecordLosses(Policy& policy, const Probe& probe) {
  return RecordBatches(policy, probe, probe.size(), train::MixedPrecision::kNo);
}

ProcessSample RecordFirstLoss(Policy& policy, const Probe& probe, train::MixedPrecision precision) {
  return RecordBatches(policy, probe, 1, precision);
}

ValueRange RangeOf(const Tensor& x) {
  if (!x.defined() || x.numel() == 0) return {};
  const Tensor values = x.to(torch::kFloat64);
  return {.min = values.min().item<double>(),
          .max = values.max().item<double>(),
          .mean = values.mean().item<double>(),
          .std = values.std(/*unbiased=*/false).item<double>()};
}

std::string PartOf(const std::string& parameter) {
  const std::size_t first = parameter.find('.');
  if (first == std::string::npos) return parameter;
  return parameter.substr(0, parameter.find('.', first + 1));
}

std::string Summary(const Tensor& x) {
  const ValueRange range = RangeOf(x);
  return fmt::format("mean {:.3g}, std {:.3g}, within [{:.3g}, {:.3g}]", range.mean, range.std,
                     range.min, range.max);
}

}  // namespace dp_bench::diagnose
