// See sampling_loop.h.
#include "graph/sampling_loop.h"

#include <utility>

#include "dp_bench/stage_trace.h"

namespace dp_bench::graph {
namespace {

using torch::Tensor;

// Adds factor * x to `sum`. A term of factor 0 is left out, as its tensor may not exist.
void AddTerm(Tensor* sum, double factor, const Tensor& x) {
  if (factor == 0.0) return;
  *sum = sum->defined() ? *sum + x * factor : x * factor;
}

// The last channels of the first steps get the observations.
Tensor RestoreObs(const Tensor& sample, const Tensor& condition) {
  Tensor restored = sample.clone();
  const std::int64_t action_dim = sample.size(2) - condition.size(2);
  restored.slice(2, action_dim).slice(1, 0, condition.size(1)).copy_(condition);
  return restored;
}

}  // namespace

Tensor RunSamplingPlan(const policy::SamplingPlan& plan, const Tensor& initial,
                       const Tensor& condition, const SamplingCalls& calls) {
  const auto restored = [&](const Tensor& x) {
    return plan.inpaints_obs ? RestoreObs(x, condition) : x;
  };
  TraceStage("noise", initial);
  Tensor sample = initial;
  Tensor last_sample;
  Tensor last_x_0;
  for (const policy::SamplerStep& step : plan.steps) {
    if (IsTracingStages()) TraceStage("timestep", torch::tensor(step.time));
    sample = restored(sample);
    const Tensor output = calls.denoise(sample, step.time);
    Tensor x_0;
    AddTerm(&x_0, step.x0_from_output, output);
    AddTerm(&x_0, step.x0_from_sample, sample);
    if (step.clip) x_0 = x_0.clamp(-*step.clip, *step.clip);

    Tensor next;
    AddTerm(&next, step.next_from_x0, x_0);
    AddTerm(&next, step.next_from_sample, sample);
    AddTerm(&next, step.next_from_output, output);
    AddTerm(&next, step.next_from_last_x0, last_x_0);
    AddTerm(&next, step.next_from_last_sample, last_sample);
    if (step.noise > 0.0) AddTerm(&next, step.noise, calls.draw_noise());
    last_sample = std::exchange(sample, std::move(next));
    last_x_0 = std::move(x_0);
    TraceStage("sample", sample);
  }
  return restored(sample);
}

}  // namespace dp_bench::graph
