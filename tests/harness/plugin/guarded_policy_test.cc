// A guarded policy behaves like the wrapped one. Its errors name the plugin and the call once.
#include "plugin/guarded_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/memory.h"
#include "support/error_of.h"

namespace dp_bench::plugin {
namespace {

using testing::HasSubstr;
using testing::Not;

class FaultyPolicy final : public Policy {
 public:
  const PolicySpec& spec() const override { return spec_; }
  void SetNormalizer(const Normalizer&) override { throw std::length_error("too long"); }
  LossOutput ComputeLoss(const Batch&, NoiseSource&) override {
    return {.loss = torch::mm(torch::ones({2, 3}), torch::ones({2, 3})), .parts = {}};
  }
  torch::Tensor PredictAction(const TensorMap& obs, NoiseSource&) override {
    if (obs.contains("large")) return torch::empty({std::int64_t{1} << 48});
    throw Error(ErrorCode::kShape, "expected 2 steps");
  }
  torch::nn::Module& module() override { return module_; }
  void WeightsChanged() override { throw 7; }
  int n_train_obs_steps() const override { return 24; }
  Distillable* distillable() override { throw std::length_error("no student"); }

 private:
  PolicySpec spec_ = {.shape_meta = {}, .horizons = {.horizon = 24}};
  torch::nn::Module module_{"faulty"};
};

std::unique_ptr<Policy> Guarded() {
  return GuardPlugin(std::make_unique<FaultyPolicy>(),
                     PluginPlace{PluginKind::kPolicy, "faulty", "/lib/libdpb_policy_faulty.so"});
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
  EXPECT_THAT(MessageOf(ErrorCode::kPlugin, [&] { policy->distillable(); }),
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
