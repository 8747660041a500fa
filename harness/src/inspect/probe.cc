// See probe.h.
#include "inspect/probe.h"

#include <fmt/format.h>

#include <map>
#include <numeric>

#include "data/sequence_sampler.h"
#include "policy/stage_recorder.h"
#include "train/device_batch.h"

namespace dp_bench::inspect {
namespace {

using torch::Tensor;

data::BatchLoaderOptions LoaderOptions(const PolicySpec& spec, std::int64_t batch_size,
                                       std::uint64_t seed) {
  data::BatchLoaderOptions options = {.batch_size = batch_size,
                                      .shuffle = true,
                                      .seed = seed,
                                      .n_obs_steps = spec.horizons.n_obs_steps,
                                      .keys = {},
                                      .n_threads = 0};
  for (const KeySpec& key : spec.shape_meta.obs) options.keys.push_back(key.name);
  return options;
}

// The stage of a loss that gives one of the tensors of ProcessSample.
std::string SlotOf(std::string_view stage) {
  return stage.starts_with("predicted") ? "prediction" : std::string(stage);
}

Tensor Joined(const std::map<std::string, std::vector<Tensor>>& stages, const std::string& name) {
  const auto found = stages.find(name);
  return found == stages.end() ? Tensor() : torch::cat(found->second);
}

}  // namespace

Probe::Probe(const Dataset& dataset, const PolicySpec& spec, const std::vector<bool>& episodes,
             std::int64_t batch_size, int n_batches, std::uint64_t seed)
    : seed_(seed) {
  data::BatchLoader loader(dataset, data::MakeTrainingSampler(dataset, spec.horizons, episodes),
                           LoaderOptions(spec, batch_size, seed));
  loader.StartEpoch(0);
  for (data::HostBatch host; std::ssize(hosts_) < n_batches && loader.Next(&host);) {
    hosts_.push_back(std::exchange(host, {}));
  }
  for (data::HostBatch& host : hosts_)
    batches_.push_back(train::ToBatch(host, spec.shape_meta, torch::kCPU));
}

NoiseSource Probe::Noise(std::size_t i) const {
  return train::BatchNoise(seed_, train::NoisePurpose::kValidation, i, batches_[i].action.size(0));
}

double ProcessSample::mean_loss() const {
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}

bool ProcessSample::is_diffusion() const {
  return x_0.defined() && noise.defined() && timesteps.defined() && x_t.defined() &&
         prediction.defined();
}

ProcessSample RecordLosses(Policy& policy, const Probe& probe) {
  const torch::NoGradGuard no_grad;
  policy.module().eval();
  policy.WeightsChanged();
  std::map<std::string, std::vector<Tensor>> stages;
  ProcessSample sample;
  {
    const policy::StageRecorder recorder([&](std::string_view name, const Tensor& tensor) {
      stages[SlotOf(name)].push_back(tensor.detach().clone());
    });
    for (std::size_t i = 0; i < probe.size(); ++i) {
      NoiseSource noise = probe.Noise(i);
      sample.losses.push_back(policy.ComputeLoss(probe.batch(i), noise).loss.item<double>());
    }
  }
  sample.x_0 = Joined(stages, "normalized action");
  sample.noise = Joined(stages, "noise");
  sample.timesteps = Joined(stages, "timesteps");
  sample.x_t = Joined(stages, "noisy action");
  sample.prediction = Joined(stages, "prediction");
  return sample;
}

std::string PartOf(const std::string& parameter) {
  const std::size_t first = parameter.find('.');
  if (first == std::string::npos) return parameter;
  return parameter.substr(0, parameter.find('.', first + 1));
}

std::string Summary(const Tensor& x) {
  const Tensor values = x.to(torch::kFloat64);
  return fmt::format("mean {:.3g}, std {:.3g}, within [{:.3g}, {:.3g}]",
                     values.mean().item<double>(), values.std(/*unbiased=*/false).item<double>(),
                     values.min().item<double>(), values.max().item<double>());
}

}  // namespace dp_bench::inspect
