// See sampling.h.
#include "policy/sampling.h"

#include <ATen/record_function.h>

#include <utility>

#include "dp_bench/stage_trace.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;

// Adds factor * x to `sum`. A term of factor 0 is left out, as its tensor may not exist. Products
// are rounded before they are added, because add_ with a factor uses fused multiply-adds on some
// processors only (docs/adr/0004).
void AddTerm(Tensor* sum, double factor, const Tensor& x) {
  if (factor == 0.0) return;
  if (sum->defined()) {
    sum->add_(x * factor);
  } else {
    *sum = x * factor;
  }
}

// The last channels of the first steps get the observations.
Tensor RestoreObs(const Tensor& sample, const Tensor& condition) {
  Tensor restored = sample.clone();
  const std::int64_t action_dim = sample.size(2) - condition.size(2);
  restored.slice(2, action_dim).slice(1, 0, condition.size(1)).copy_(condition);
  return restored;
}

bool IsCorrection(const SamplerStep& step) { return step.next_from_last_sample != 0.0; }

}  // namespace

Tensor RunSamplingPlan(const SamplingPlan& plan, const Tensor& initial, const Tensor& condition,
                       const SamplingCalls& calls) {
  const auto restored = [&](const Tensor& x) {
    return plan.inpaints_obs ? RestoreObs(x, condition) : x;
  };
  const auto actions_of = [&](const Tensor& x) {
    return plan.inpaints_obs ? x.slice(2, 0, x.size(2) - condition.size(2)) : x;
  };
  const bool is_tracing = IsTracingStages();
  if (is_tracing) TraceStage("noise", actions_of(initial));
  Tensor sample = initial;
  Tensor last_sample;
  Tensor last_x_0;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    RECORD_USER_SCOPE("denoising step");
    const SamplerStep& step = plan.steps[i];
    // the two evaluations of Heun's method are traced as one step
    const bool traces_begin = is_tracing && !IsCorrection(step);
    const bool traces_end =
        is_tracing && (i + 1 == plan.steps.size() || !IsCorrection(plan.steps[i + 1]));
    if (traces_begin) {
      TraceStage("timestep", torch::tensor(step.time / calls.time_unit, torch::kFloat64));
    }
    sample = restored(sample);
    const Tensor output = calls.denoise(sample, i);
    Tensor x_0;
    AddTerm(&x_0, step.x0_from_output, output);
    AddTerm(&x_0, step.x0_from_sample, sample);
    if (step.clip) {
      if (traces_begin) TraceStage("clipped values", actions_of(x_0).abs().gt(*step.clip).sum());
      x_0.clamp_(-*step.clip, *step.clip);
    }
    if (traces_begin) TraceStage("denoised action", actions_of(x_0));

    Tensor next;
    AddTerm(&next, step.next_from_x0, x_0);
    AddTerm(&next, step.next_from_sample, sample);
    AddTerm(&next, step.next_from_output, output);
    AddTerm(&next, step.next_from_last_x0, last_x_0);
    AddTerm(&next, step.next_from_last_sample, last_sample);
    if (step.noise > 0.0) AddTerm(&next, step.noise, calls.draw_noise());
    last_sample = std::exchange(sample, std::move(next));
    last_x_0 = std::move(x_0);
    if (traces_end) TraceStage("sample", actions_of(sample));
  }
  return restored(sample);
}

}  // namespace dp_bench::policy
