#include "env_simulation.h"

#include <algorithm>
#include <utility>

namespace dp_bench::python {
namespace {

SimulationSpec SpecOf(const EnvSpec& env) {
  SimulationSpec spec = {.obs = {},
                         .action_low = env.action_low,
                         .action_high = env.action_high,
                         .control_hz = env.control_hz,
                         .max_steps = env.max_steps};
  for (const KeySpec& key : env.shape_meta.obs) {
    spec.obs.push_back(
        {key.name, key.StorageShape(), std::string(Name(key.dtype)), key.ByteSize()});
  }
  for (const MetricSpec& metric : env.metrics) spec.infos.push_back(metric.name);
  return spec;
}

}  // namespace

EnvSimulation::EnvSimulation(std::unique_ptr<Env> env)
    : env_(std::move(env)),
      spec_(SpecOf(env_->spec())),
      action_(spec_.action_low.size()),
      metrics_(spec_.infos.size()),
      buffers_(spec_.obs.size()) {}

void EnvSimulation::Reset(std::uint64_t seed) {
  env_->Reset(seed);
  std::ranges::fill(metrics_, 0.0);
}

Simulation::Outcome EnvSimulation::Step(std::span<const double> action) {
  std::ranges::transform(action, action_.begin(),
                         [](double number) { return static_cast<float>(number); });
  const StepResult result = env_->Step(action_);
  std::ranges::copy(result.metrics, metrics_.begin());
  return {result.reward, result.terminated, result.success};
}

void EnvSimulation::Observe(std::span<std::byte* const> arrays, std::size_t row) {
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const std::size_t n_bytes = spec_.obs[i].n_bytes;
    buffers_[i] = {arrays[i] + row * n_bytes, n_bytes};
  }
  env_->Observe(ObsWriter(env_->spec().shape_meta.obs, buffers_));
}

void EnvSimulation::WriteInfos(std::span<double> infos) const {
  std::ranges::copy(metrics_, infos.begin());
}

}  // namespace dp_bench::python
