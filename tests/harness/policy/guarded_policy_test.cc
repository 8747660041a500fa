// A guarded policy behaves like the wrapped one. Its errors name the plugin and the call once.
#include "policy/guarded_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/machine.h"
#include "support/error_of.h"

namespace dp_bench::plugin {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

PolicySpec Spec() {
  return {.shape_meta = {.action = {.name = "action", .shape = {2}}}, .horizons = {.horizon = 24}};
}

class FaultyPolicy final : public Policy {
 public:
  FaultyPolicy() { weight = module_.register_parameter("weight", torch::ones({2})); }

  torch::Tensor weight;
  std::function<LossOutput()> on_loss = [] {
    return LossOutput{.loss = torch::mm(torch::ones({2, 3}), torch::ones({2, 3})), .parts = {}};
  };
  torch::Tensor chunk;

  const PolicySpec& spec() const override { return spec_; }
  void SetNormalizer(const Normalizer&) override { throw std::length_error("too long"); }
  LossOutput ComputeLoss(const Batch&, NoiseSource&) override { return on_loss(); }
  torch::Tensor PredictAction(const TensorMap& obs, NoiseSource&) override {
    if (obs.contains("large")) return torch::empty({std::int64_t{1} << 48});
    if (!chunk.defined()) throw Error(ErrorCode::kShape, "expected 2 steps");
    return chunk;
  }
  torch::nn::Module& module() override { return module_; }
  void WeightsChanged() override { throw 7; }
  int n_train_obs_steps() const override { return 24; }
  void LearnFrom(Policy&, Policy&) override { throw std::length_error("no student"); }

 private:
  PolicySpec spec_ = Spec();
  torch::nn::Module module_{"faulty"};
};

std::unique_ptr<Policy> Guarded(std::unique_ptr<Policy> policy, const PolicySpec& spec = Spec()) {
  return GuardPlugin(std::move(policy),
                     PluginPlace{PluginKind::kPolicy, "faulty", "/lib/libdpb_policy_faulty.so"},
                     spec);
}

std::unique_ptr<Policy> Guarded() { return Guarded(std::make_unique<FaultyPolicy>()); }

std::string LossErrorOf(const std::function<LossOutput(const torch::Tensor& weight)>& loss) {
  auto policy = std::make_unique<FaultyPolicy>();
  policy->on_loss = [loss, weight = policy->weight] { return loss(weight); };
  NoiseSource noise(std::vector<NoiseKey>(1));
  return MessageOf(ErrorCode::kPlugin, [&] { Guarded(std::move(policy))->ComputeLoss({}, noise); });
}

std::string ChunkErrorOf(const torch::Tensor& chunk) {
  auto policy = std::make_unique<FaultyPolicy>();
  policy->chunk = chunk;
  NoiseSource noise(std::vector<NoiseKey>(1));
  return MessageOf(ErrorCode::kShape,
                   [&] { Guarded(std::move(policy))->PredictAction({}, noise); });
}

std::size_t Count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(GuardedPolicy, PassesResultsThrough) {
  EXPECT_EQ(Guarded()->spec().horizons.horizon, 24);
  EXPECT_EQ(Guarded()->module().name(), "faulty");
  EXPECT_EQ(Guarded()->n_train_obs_steps(), 24);
}

TEST(GuardedPolicy, NamesPluginAndCallOnceAndKeepsTheCode) {
  NoiseSource noise(std::vector<NoiseKey>(1));
  const auto policy = Guarded();
  const std::string shape = MessageOf(ErrorCode::kShape, [&] { policy->PredictAction({}, noise); });
  EXPECT_THAT(shape, HasSubstr("expected 2 steps"));
  EXPECT_EQ(Count(shape, "in policy plugin 'faulty' (libdpb_policy_faulty.so)"), 1U);
  EXPECT_THAT(shape, HasSubstr("during PredictAction"));
  EXPECT_THAT(MessageOf(ErrorCode::kPlugin, [&] { policy->SetNormalizer(Normalizer()); }),
              HasSubstr("too long"));
  EXPECT_THAT(MessageOf(ErrorCode::kPlugin, [&] { policy->WeightsChanged(); }),
              HasSubstr("not a std::exception"));
  EXPECT_THAT(MessageOf(ErrorCode::kPlugin, [&] { policy->LearnFrom(*policy, *policy); }),
              HasSubstr("no student"));
}

TEST(GuardedPolicy, KeepsTheMessageOfLibTorchWithoutItsBacktrace) {
  NoiseSource noise(std::vector<NoiseKey>(1));
  const auto policy = Guarded();
  const std::string message =
      MessageOf(ErrorCode::kPlugin, [&] { policy->ComputeLoss({}, noise); });
  EXPECT_THAT(message, HasSubstr("2x3 and 2x3"));
  EXPECT_EQ(Count(message, "during ComputeLoss"), 1U);
  EXPECT_THAT(message, Not(HasSubstr("frame #")));
}

TEST(GuardedPolicy, AChunkHasTheShapeOfTheContract) {
  EXPECT_THAT(ChunkErrorOf(torch::zeros({1, 24, 2})),
              AllOf(HasSubstr("expected actions [B, Ta, Da] = [1, 8, 2] Float, found [1, 24, 2]"),
                    HasSubstr("These are all T predicted steps"), HasSubstr("narrow(1, "),
                    HasSubstr("during PredictAction")));
  EXPECT_THAT(ChunkErrorOf(torch::zeros({2, 8, 2})), HasSubstr("found [2, 8, 2] Float"));
  EXPECT_THAT(ChunkErrorOf(torch::zeros({1, 8, 2}, torch::kFloat64)), HasSubstr("Double"));

  auto policy = std::make_unique<FaultyPolicy>();
  policy->chunk = torch::zeros({1, 8, 2});
  NoiseSource noise(std::vector<NoiseKey>(1));
  EXPECT_NO_THROW(Guarded(std::move(policy))->PredictAction({}, noise));
}

TEST(GuardedPolicy, ALossIsAScalarWithGradientAndSoAreItsParts) {
  EXPECT_THAT(LossErrorOf([](const auto& weight) {
                return LossOutput{weight, {}};
              }),
              HasSubstr("loss: expected a scalar, [] Float, found [2] Float"));
  EXPECT_THAT(LossErrorOf([](const auto& weight) {
                return LossOutput{weight.sum().detach(), {}};
              }),
              HasSubstr("expected a scalar with gradient, found one without"));
  EXPECT_THAT(LossErrorOf([](const auto&) { return LossOutput{}; }), HasSubstr("undefined"));
  EXPECT_THAT(LossErrorOf([](const auto& weight) {
                return LossOutput{weight.sum(), {{"rows", weight.detach()}}};
              }),
              HasSubstr("part 'rows' of the loss: expected a scalar, found [2] Float"));
}

TEST(GuardedPolicy, WithoutGradientsALossNeedsNone) {
  auto policy = std::make_unique<FaultyPolicy>();
  policy->on_loss = [weight = policy->weight] { return LossOutput{weight.sum(), {}}; };
  NoiseSource noise(std::vector<NoiseKey>(1));
  const torch::NoGradGuard no_grad;
  EXPECT_NO_THROW(Guarded(std::move(policy))->ComputeLoss({}, noise));
}

TEST(GuardedPolicy, AnErrorOfTheBackwardPassNamesThePlugin) {
  auto faulty = std::make_unique<FaultyPolicy>();
  faulty->on_loss = [weight = faulty->weight] {
    torch::Tensor x = weight * 2.0;
    const torch::Tensor loss = x.square().sum();
    x.add_(1.0);
    return LossOutput{loss, {}};
  };
  const auto policy = Guarded(std::move(faulty));
  NoiseSource noise(std::vector<NoiseKey>(1));
  const torch::Tensor loss = policy->ComputeLoss({}, noise).loss;
  EXPECT_THAT(MessageOf(ErrorCode::kPlugin, [&] { ComputeGradients(*policy, loss); }),
              AllOf(HasSubstr("modified by an inplace operation"),
                    HasSubstr("in policy plugin 'faulty'"), Not(HasSubstr("frame #"))));
}

TEST(GuardedPolicy, ThePolicyIsTheOneThatWasAskedFor) {
  PolicySpec other = Spec();
  other.horizons.horizon = 16;
  EXPECT_THAT(
      MessageOf(ErrorCode::kPlugin, [&] { Guarded(std::make_unique<FaultyPolicy>(), other); }),
      HasSubstr("expected the shape_meta and horizons"));
}

TEST(GuardedPolicy, MemoryThatRunsOutIsNoFaultOfThePlugin) {
  NoiseSource noise(std::vector<NoiseKey>(1));
  try {
    Guarded()->PredictAction({{"large", torch::Tensor()}}, noise);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const core::OutOfMemory& error) {
    EXPECT_THAT(error.what(), HasSubstr("you tried to allocate"));
    EXPECT_THAT(error.what(), Not(HasSubstr("frame #")));
  }
}

}  // namespace
}  // namespace dp_bench::plugin
