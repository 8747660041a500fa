// The gradient scaler against torch.amp.GradScaler.
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "support/json_golden.h"
#include "train/optimizer.h"

namespace dp_bench::train {
namespace {

std::vector<ParameterGroup> GroupsWithGradients(const std::vector<torch::Tensor>& gradients) {
  ParameterGroup group;
  for (const torch::Tensor& gradient : gradients) {
    group.parameters.push_back(torch::zeros_like(gradient).requires_grad_());
    group.parameters.back().mutable_grad() = gradient;
  }
  return {group};
}

TEST(GradScaler, ScaleGrowsAndBacksOffAsPyTorchs) {
  const nlohmann::json cases = JsonGolden("grad_scaler")["cases"];
  ASSERT_EQ(cases.size(), 4U);
  for (const nlohmann::json& c : cases) {
    const auto overflows = c["overflows"].get<std::set<std::int64_t>>();
    GradScalerState state = {.scale = c["init_scale"].get<float>()};
    std::int64_t step = 0;
    for (const nlohmann::json& point : c["curve"]) {
      for (; step <= point[0].get<std::int64_t>(); ++step) {
        UpdateScale(/*is_finite=*/!overflows.contains(step), &state);
      }
      EXPECT_EQ(state.scale, point[1].get<float>()) << "step " << step - 1;
      EXPECT_EQ(state.growth_tracker, point[2].get<std::int64_t>()) << "step " << step - 1;
    }
    EXPECT_EQ(step, c["n_steps"].get<std::int64_t>());
  }
}

TEST(GradScaler, UnscaledGradientsEqualPyTorchs) {
  const nlohmann::json golden = JsonGolden("grad_scaler")["unscale"];
  const torch::Tensor gradient =
      torch::tensor(golden["before"].get<std::vector<double>>(), torch::kFloat64)
          .to(torch::kFloat32);
  EXPECT_TRUE(UnscaleGradients(GroupsWithGradients({gradient}), 65536.0));
  const auto after = torch::tensor(golden["after"].get<std::vector<double>>(), torch::kFloat64);
  EXPECT_TRUE(torch::equal(gradient.to(torch::kFloat64), after));
}

TEST(GradScaler, OneNumberThatIsNotFiniteIsFound) {
  for (const double fault :
       {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    torch::Tensor gradient = torch::ones({1000});
    gradient[777] = fault;
    EXPECT_FALSE(UnscaleGradients(GroupsWithGradients({torch::ones({3}), gradient}), 2.0));
  }
}

TEST(GradScaler, CountsUpdatesLeftOutInARow) {
  GradScalerState state;
  for (int i = 1; i <= 3; ++i) {
    UpdateScale(/*is_finite=*/false, &state);
    EXPECT_EQ(state.skips_in_a_row, i);
  }
  UpdateScale(/*is_finite=*/true, &state);
  EXPECT_EQ(state.skips_in_a_row, 0);
}

TEST(GradScaler, ParametersWithoutGradientAreLeftAlone) {
  ParameterGroup group;
  group.parameters.push_back(torch::zeros({2}).requires_grad_());
  EXPECT_TRUE(UnscaleGradients({group}, 2.0));
  EXPECT_FALSE(group.parameters[0].grad().defined());
}

}  // namespace
}  // namespace dp_bench::train
