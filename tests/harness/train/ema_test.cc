// The EMA's warm-up curve against diffusers, and which tensors it averages.
#include "train/ema.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "support/error_of.h"
#include "support/golden.h"

namespace dp_bench::train {
namespace {

constexpr double kCurveTolerance = 1e-12;  // equal formulas in float64
constexpr double kWeightTolerance = 1e-6;  // float32 arithmetic on values around 1

struct BlockImpl : torch::nn::Module {
  BlockImpl() {
    linear = register_module("linear", torch::nn::Linear(2, 2));
    norm = register_module("norm", torch::nn::BatchNorm1d(2));
    frozen = register_parameter("frozen", torch::zeros({2}), /*requires_grad=*/false);
  }
  torch::nn::Linear linear{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::Tensor frozen;
};

void Fill(BlockImpl& block, double value) {
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : block.parameters()) parameter.fill_(value);
  block.norm->running_mean.fill_(value);
}

double First(const torch::Tensor& tensor) { return tensor.flatten()[0].item<double>(); }

TEST(Ema, DecayCurveEqualsThatOfDiffusers) {
  const run::Safetensors& golden = Golden("training");
  const auto steps = golden.tensors.at("ema.steps").as<std::int64_t>();
  int n_cases = 0;
  for (const auto& [name, text] : golden.metadata) {
    if (!name.starts_with("ema.")) continue;
    SCOPED_TRACE(text);
    const EmaConfig config = EmaConfig::FromConfig(Config::FromJson(text));
    const auto decays = golden.tensors.at(name).as<double>();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      EXPECT_NEAR(EmaDecay(config, steps[i]), decays[i], kCurveTolerance) << "step " << steps[i];
    }
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 3);
}

TEST(Ema, StartsAsACopyOutsideOfAutograd) {
  BlockImpl model;
  BlockImpl ema_model;
  Fill(model, 3.0);
  Fill(ema_model, 1.0);
  const Ema ema({}, model, ema_model);
  EXPECT_EQ(First(ema_model.linear->weight), 3.0);
  EXPECT_EQ(First(ema_model.norm->running_mean), 3.0);
  EXPECT_FALSE(ema_model.linear->weight.requires_grad());
  EXPECT_TRUE(model.linear->weight.requires_grad());
}

TEST(Ema, AveragesTrainedWeightsAndCopiesTheRest) {
  BlockImpl model;
  BlockImpl ema_model;
  Fill(model, 1.0);
  Ema ema({.min_value = 0.5, .max_value = 0.5}, model, ema_model);

  // the first two updates copy
  for (const double value : {3.0, 2.0}) {
    Fill(model, value);
    ema.Update();
    EXPECT_EQ(First(ema_model.linear->weight), value);
  }

  // the third has a decay of 0.5
  Fill(model, 4.0);
  ema.Update();
  EXPECT_NEAR(First(ema_model.linear->weight), 3.0, kWeightTolerance);
  EXPECT_NEAR(First(ema_model.linear->bias), 3.0, kWeightTolerance);
  EXPECT_EQ(First(ema_model.norm->weight), 4.0);
  EXPECT_EQ(First(ema_model.norm->running_mean), 4.0);
  EXPECT_EQ(First(ema_model.frozen), 4.0);
  EXPECT_EQ(ema.step(), 3);
}

TEST(Ema, ContinuesFromItsStepAndWeights) {
  BlockImpl model;
  BlockImpl ema_model;
  BlockImpl resumed_model;
  Fill(model, 1.0);
  Ema ema({}, model, ema_model);
  for (int i = 0; i < 5; ++i) {
    Fill(model, i);
    ema.Update();
  }
  Ema resumed({}, model, resumed_model);
  resumed.set_step(ema.step());
  Fill(resumed_model, First(ema_model.linear->weight));
  Fill(model, 9.0);
  ema.Update();
  resumed.Update();
  EXPECT_TRUE(torch::equal(ema_model.linear->weight, resumed_model.linear->weight));
}

TEST(Ema, RefusesAModelOfAnotherStructure) {
  BlockImpl model;
  torch::nn::LinearImpl other(2, 2);
  EXPECT_EQ(MessageOf(ErrorCode::kInternal, [&] { const Ema ema({}, model, other); }),
            "the EMA model (2 parameters) is built differently from the model (5 parameters)");
}

}  // namespace
}  // namespace dp_bench::train
