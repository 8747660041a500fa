// Regression: the network answers the action sequence at once, from zeros. It is the baseline that
// tells what noise adds (MIP, arXiv 2512.01809, compares with it). Where demonstrations contradict
// each other, it learns their mean.
#include "policy/objectives/objective.h"

namespace dp_bench::policy {
namespace {

class RegressionObjective final : public Objective {
 public:
  // f(0, 0), whose target is the sequence.
  std::vector<TrainingPass> Corrupt(const TrainingInputs& inputs) const override {
    const torch::Tensor& x_0 = inputs.x_0;
    return {{.noisy = torch::zeros_like(x_0),
             .times = torch::zeros({x_0.size(0)}, x_0.options()),
             .target = x_0}};
  }

  const char* prediction_name() const override { return "predicted action"; }
  bool starts_from_noise() const override { return false; }

  std::vector<SamplerStep> steps() const override {
    return {{.time = 0.0, .x0_from_output = 1.0, .next_from_x0 = 1.0}};
  }
};

}  // namespace

std::unique_ptr<Objective> MakeRegression() { return std::make_unique<RegressionObjective>(); }

}  // namespace dp_bench::policy
