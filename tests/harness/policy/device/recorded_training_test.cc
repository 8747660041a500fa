// Training steps that a device replays as a graph (policy.params.cuda_graph), beside the same steps
// operator by operator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "dp_bench/policy/networks/diffusion_policy.h"
#include "policy/kernels/loop_tensors.h"
#include "support/distant_device/distant_device.h"
#include "support/error_of.h"
#include "support/small_policy.h"
#include "train/train_config.h"

namespace dp_bench::policy {
namespace {

using testing::HasSubstr;
using torch::Tensor;

constexpr std::int64_t kRows = 3;

/// The position times a parameter.
class GainEncoder : public ObsEncoder {
 public:
  explicit GainEncoder(torch::nn::Module& module)
      : gain_(module.register_parameter("gain", torch::ones({1}))) {}
  std::int64_t feature_dim() const override { return 2; }
  Tensor Encode(const TensorMap& obs, const Normalizer&, NoiseSource*) override {
    return obs.find("agent_pos")->second * gain_;
  }
  void set_gradient_checkpointing(bool) override {}

 private:
  Tensor gain_;
};

/// Another denoiser, whose calls are counted.
class CountedDenoiser : public Denoiser {
 public:
  explicit CountedDenoiser(std::shared_ptr<Denoiser> denoiser) : denoiser_(std::move(denoiser)) {}
  Tensor Forward(const Tensor& noisy, const Tensor& times, const Tensor& cond,
                 NoiseSource* noise) override {
    ++n_calls;
    return denoiser_->Forward(noisy, times, cond, noise);
  }
  ConditionedDenoiser Condition(const std::vector<double>& times, const Tensor& cond) override {
    return denoiser_->Condition(times, cond);
  }
  void DropCaches() override { denoiser_->DropCaches(); }
  void set_gradient_checkpointing(bool is_on) override {
    denoiser_->set_gradient_checkpointing(is_on);
  }

  int n_calls = 0;

 private:
  std::shared_ptr<Denoiser> denoiser_;
};

/// A policy in training, with equal weights each time.
class Training {
 public:
  Training(const std::string& params, bool is_graph, c10::Device device = DistantDevice())
      : device_(device) {
    torch::manual_seed(5);
    const std::string graph = is_graph ? ", \"cuda_graph\": true" : "";
    const Config config = Config::FromJson("{" + params + graph + "}", "policy.json");
    DiffusionPolicy::Model model;
    model.obs_encoder = std::make_unique<GainEncoder>(*model.module);
    model.channels = DenoiserChannels::FromConfig(config, SmallSpec(), 2);
    const bool is_unet = config.Has("down_dims");
    auto denoiser = (is_unet ? MakeUnetDenoiser : MakeTransformerDenoiser)(
        config, SmallSpec(), model.channels, *model.module);
    auto counted = std::make_shared<CountedDenoiser>(denoiser);
    counted_ = counted.get();
    model.denoiser = counted;
    policy_ = std::make_unique<DiffusionPolicy>("test", config, SmallSpec(), std::move(model));
    config.RejectUnread();
    policy_->module().to(device);
    policy_->SetNormalizer(SmallNormalizer());
    policy_->module().train();
  }

  int n_calls() const { return counted_->n_calls; }

  Tensor Loss(std::uint64_t step, std::int64_t rows = kRows,
              train::MixedPrecision precision = train::MixedPrecision::kNo) {
    NoiseSource source = NoiseOfRows(rows, 100 + step);
    Batch batch = SmallBatch(source, rows);
    batch.obs["agent_pos"] =
        source.Uniform(StreamId::kEnvStart, {rows, policy_->n_train_obs_steps(), 2});
    batch.obs["agent_pos"] = batch.obs["agent_pos"].to(device_);
    batch.action = batch.action.to(device_);
    batch.is_pad = batch.is_pad.to(device_);
    NoiseSource noise = NoiseOfRows(rows, step);
    const AutocastGuard autocast(device_.type(), train::ProductType(precision));
    return policy_->ComputeLoss(batch, noise).loss;
  }

  /// The loss before one step of gradient descent.
  float Step(std::uint64_t step, std::int64_t rows = kRows,
             train::MixedPrecision precision = train::MixedPrecision::kNo) {
    const Tensor loss = Loss(step, rows, precision);
    loss.backward();
    const torch::NoGradGuard no_grad;
    for (Tensor& parameter : policy_->module().parameters()) {
      EXPECT_TRUE(parameter.grad().defined());
      if (parameter.grad().defined()) parameter.sub_(parameter.grad(), 0.01);
      parameter.mutable_grad().reset();
    }
    return loss.item<float>();
  }

  void ExpectSameWeights(Training& other) {
    auto others = other.policy_->module().named_parameters();
    for (const auto& item : policy_->module().named_parameters()) {
      EXPECT_TRUE(torch::equal(item.value().cpu(), others[item.key()].cpu())) << item.key();
    }
  }

 private:
  c10::Device device_;
  CountedDenoiser* counted_ = nullptr;
  std::unique_ptr<DiffusionPolicy> policy_;
};

const std::string kUnet = R"("down_dims": [16, 32], "n_groups": 8, "diffusion_step_embed_dim": 16)";
const std::string kTransformer =
    R"("n_layer": 1, "n_head": 2, "n_emb": 16, "p_drop_emb": 0, "p_drop_attn": 0)";

struct Case {
  std::string name;
  std::string params;
  int n_passes = 1;
  train::MixedPrecision precision = train::MixedPrecision::kNo;
};

class RecordedStep : public testing::TestWithParam<Case> {};

TEST_P(RecordedStep, GivesTheBitsOfOperatorsOneByOne) {
  const Case& the_case = GetParam();
  Training plain(the_case.params, /*is_graph=*/false);
  Training recorded(the_case.params, /*is_graph=*/true);
  for (std::uint64_t step = 0; step < 4; ++step) {
    const float expected = plain.Step(step, kRows, the_case.precision);
    EXPECT_EQ(recorded.Step(step, kRows, the_case.precision), expected) << step;
    recorded.ExpectSameWeights(plain);
  }
  EXPECT_EQ(plain.n_calls(), 4 * the_case.n_passes);
  EXPECT_EQ(recorded.n_calls(), 3 * the_case.n_passes);  // runs twice, is recorded once
}

INSTANTIATE_TEST_SUITE_P(
    , RecordedStep,
    testing::Values(Case{"unet", kUnet}, Case{"transformer", kTransformer},
                    Case{"unet_bf16", kUnet, 1, train::MixedPrecision::kBf16},
                    Case{"transformer_bf16", kTransformer, 1, train::MixedPrecision::kBf16},
                    Case{"two_passes", kUnet + R"(, "objective": "mip")", 2},
                    Case{"float_times", kUnet + R"(, "objective": "flow_matching")"},
                    Case{"prefix", kUnet + R"(, "max_prefix": 3)"},
                    Case{"inpainting", kUnet + R"(, "obs_as_global_cond": false)"},
                    Case{"causal", kTransformer + R"(, "causal_attn": true)"},
                    Case{"loss_weights",
                         kUnet + R"(, "loss_chunk_decay": 0.9, "do_mask_loss_for_padding": true,
                                         "loss_weighting": "min_snr")"}),
    [](const testing::TestParamInfo<Case>& the_case) { return the_case.param.name; });

TEST(RecordedTraining, TheHostStartsFewerOperators) {
  const std::string unet = R"("down_dims": [64, 128, 256])";
  const std::string transformer =
      R"("n_layer": 4, "n_head": 6, "n_emb": 192, "p_drop_emb": 0, "p_drop_attn": 0)";
  for (const std::string& params : {unet, transformer}) {
    const auto starts_of_loss = [&](bool is_graph) {
      Training training(params, is_graph);
      for (std::uint64_t step = 0; step < 2; ++step) training.Step(step);
      const std::int64_t before = DistantDeviceStarts();
      training.Loss(2).backward();
      return DistantDeviceStarts() - before;
    };
    const std::int64_t one_by_one = starts_of_loss(false);
    EXPECT_LT(starts_of_loss(true), one_by_one / 3) << one_by_one;
  }
}

TEST(RecordedTraining, ABatchOfAnotherSizeLeavesTheRecording) {
  Training plain(kUnet, /*is_graph=*/false);
  Training recorded(kUnet, /*is_graph=*/true);
  std::uint64_t step = 0;
  for (const std::int64_t rows : {3, 3, 3, 2, 3, 3}) {
    EXPECT_EQ(recorded.Step(step, rows), plain.Step(step, rows)) << step;
    ++step;
  }
  recorded.ExpectSameWeights(plain);
  EXPECT_EQ(recorded.n_calls(), 4);
}

TEST(RecordedTraining, GradientsOfSeveralBatchesAddUp) {
  Training plain(kUnet, /*is_graph=*/false);
  Training recorded(kUnet, /*is_graph=*/true);
  for (std::uint64_t step = 0; step < 8; ++step) {
    for (Training* training : {&plain, &recorded}) {
      if (step % 2 == 0) {
        (training->Loss(step) * 0.5).backward();
      } else {
        training->Step(step);
      }
    }
  }
  recorded.ExpectSameWeights(plain);
}

TEST(RecordedTraining, OnTheCpuNothingIsRecorded) {
  Training plain(kUnet, /*is_graph=*/false, torch::kCPU);
  Training other(kUnet, /*is_graph=*/true, torch::kCPU);
  for (std::uint64_t step = 0; step < 3; ++step) EXPECT_EQ(other.Step(step), plain.Step(step));
  EXPECT_EQ(other.n_calls(), 3);
}

TEST(RecordedTraining, DropoutIsRefused) {
  Training training(R"("n_layer": 1, "n_head": 2, "n_emb": 16, "p_drop_attn": 0.1)", true);
  training.Step(0);
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { training.Step(1); }),
              HasSubstr("policy.params.cuda_graph: the network cannot be recorded"));
}

TEST(RecordedTraining, Float16IsRefused) {
  Training training(kUnet, /*is_graph=*/true);
  EXPECT_THAT(
      MessageOf(ErrorCode::kConfig, [&] { training.Loss(0, kRows, train::MixedPrecision::kFp16); }),
      HasSubstr("training.mixed_precision=fp16"));
}

TEST(RecordedTraining, GradientCheckpointingIsRefused) {
  EXPECT_THAT(MessageOf(ErrorCode::kConfig,
                        [] { Training(kUnet + R"(, "gradient_checkpointing": true)", true); }),
              HasSubstr("cuda_graph: expected false with gradient_checkpointing"));
}

TEST(RecordedTraining, ALossMustBeDifferentiatedBeforeTheNext) {
  Training training(kUnet, /*is_graph=*/true);
  training.Step(0);
  const Tensor first = training.Loss(1);
  const Tensor second = training.Loss(2);
  EXPECT_THAT(MessageOf(ErrorCode::kInternal, [&] { first.backward(); }),
              HasSubstr("a loss was differentiated after the next one was computed"));
  second.backward();
}

}  // namespace
}  // namespace dp_bench::policy
