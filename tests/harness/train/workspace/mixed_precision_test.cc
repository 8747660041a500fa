// training.mixed_precision in whole trainings.
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/train/workspace/fake_training.h"
#include "planner/policy_weights.h"
#include "policy/device.h"
#include "support/error_of.h"
#include "support/folder_content.h"
#include "support/scratch_folder.h"

namespace dp_bench::train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr double kOverflowing = 1e4;  // factor on the loss: too much for float16 at the first scale

/// Records the types that losses are computed in; multiplies the loss of step n by factor(n).
class NotingPolicy : public FakePolicy {
 public:
  struct Notes {
    std::vector<std::string> types;  // of training losses, then of others
    std::int64_t n_losses = 0;       // of training
    std::function<double(std::int64_t)> factor = [](std::int64_t) { return 1.0; };
  };
  explicit NotingPolicy(Notes* notes) : FakePolicy(0.05F), notes_(notes) {}

  LossOutput ComputeLoss(const Batch& batch, NoiseSource& noise) override {
    const bool is_on = at::autocast::is_autocast_enabled(at::kCPU);
    const std::string type =
        is_on ? c10::toString(at::autocast::get_autocast_dtype(at::kCPU)) : "Float";
    const bool is_training = module().is_training();
    notes_->types.push_back((is_training ? "train " : "validate ") + type);
    LossOutput output = FakePolicy::ComputeLoss(batch, noise);
    EXPECT_EQ(output.loss.scalar_type(), torch::kFloat32);
    if (is_training) output.loss = output.loss * notes_->factor(notes_->n_losses++);
    return output;
  }

 private:
  Notes* notes_;
};

/// `stop_at`: interrupted after this many training steps of this process.
TrainReport TrainInPrecision(const fs::path& output, const std::string& training,
                             NotingPolicy::Notes* notes, std::int64_t stop_at = -1) {
  const FakeDataset dataset;
  WorkspaceParts parts = FakeParts(FakeConfig(training), dataset, output);
  std::atomic<bool> stop = false;
  parts.stop = &stop;
  parts.create_policy = [&] {
    auto policy = std::make_unique<NotingPolicy>(notes);
    policy->on_loss = [&stop, notes, stop_at] { stop = stop || notes->n_losses == stop_at; };
    return policy;
  };
  return Workspace(std::move(parts)).Run({});
}

TEST(MixedPrecision, IsForTrainingLossesAlone) {
  for (const auto& [name, type] : {std::pair{"bf16", "BFloat16"}, {"fp16", "Half"}}) {
    const ScratchFolder scratch;
    NotingPolicy::Notes notes;
    TrainInPrecision(scratch.path(), R"("mixed_precision": ")" + std::string(name) + '"', &notes);
    EXPECT_EQ(std::ranges::count(notes.types, std::string("train ") + type), 40);
    EXPECT_EQ(std::ranges::count(notes.types, "validate Float"), 12);
    EXPECT_EQ(notes.types.size(), 52U);
    EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  }
}

TEST(MixedPrecision, TrainsAsFloat32DoesAndKeepsFloat32Weights) {
  const ScratchFolder scratch;
  NotingPolicy::Notes notes;
  const double loss =
      TrainInPrecision(scratch.path() / "no", R"("mixed_precision": "no")", &notes).train_loss;
  for (const char* name : {"bf16", "fp16"}) {
    const fs::path output = scratch.path() / name;
    const TrainReport report =
        TrainInPrecision(output, R"("mixed_precision": ")" + std::string(name) + '"', &notes);
    // the losses of 40 steps of AdamW from equal weights; bfloat16 rounds to 3 digits
    EXPECT_NEAR(report.train_loss, loss, 0.02 * loss) << name;
    const ArrayMap weights = run::Checkpoint::Open(*report.latest).ReadTensors(run::kModelFile);
    EXPECT_EQ(weights.at("linear.weight").dtype(), DType::kFloat32);
  }
  EXPECT_LT(loss, 0.5 * LogOf(scratch.path() / "fp16").front()["train_loss"].get<double>());
}

TEST(MixedPrecision, UpdatesThatOverflowAreLeftOutAndCountNowhere) {
  const ScratchFolder scratch;
  NotingPolicy::Notes notes;
  notes.factor = [](std::int64_t step) { return step == 3 || step == 17 ? kOverflowing : 1.0; };
  testing::internal::CaptureStderr();
  TrainInPrecision(scratch.path(), R"("mixed_precision": "fp16")", &notes);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("float16 gradients overflowed at epoch 1, global_step 17: the update is "
                        "skipped, the loss scale is now 16384"));
  const TrainState state = LatestState(scratch.path());
  EXPECT_EQ(state.global_step, 40);
  EXPECT_EQ(state.optimizer_step, 38);
  EXPECT_EQ(state.ema_step, 38);
  EXPECT_EQ(state.grad_scaler,
            (GradScalerState{.scale = 16384.0F, .growth_tracker = 22, .skips_in_a_row = 0}));

  const std::vector<nlohmann::json> log = LogOf(scratch.path());
  for (std::size_t step = 0; step < log.size(); ++step) {
    EXPECT_EQ(log[step].contains("grad_norm"), step != 3 && step != 17) << step;
    EXPECT_EQ(log[step]["train_grad_scale"], step <= 3 ? 65536.0 : step <= 17 ? 32768.0 : 16384.0);
  }
}

TEST(MixedPrecision, ResumedRunEqualsAnUnbrokenOneBitForBit) {
  const ScratchFolder scratch;
  const std::string fp16 = R"("mixed_precision": "fp16")";
  const auto overflow = [](std::int64_t first) {
    return [first](std::int64_t step) {
      return first + step == 4 || first + step == 5 || first + step == 27 ? kOverflowing : 1.0;
    };
  };
  // with half an accumulation window in the checkpoint, too
  for (const char* more : {"", R"(, "gradient_accumulate_every": 3)"}) {
    const fs::path whole = scratch.path() / ("whole" + std::to_string(std::string(more).size()));
    const fs::path broken = whole.string() + "_broken";
    NotingPolicy::Notes notes = {.factor = overflow(0)};
    TrainInPrecision(whole, fp16 + more, &notes);
    NotingPolicy::Notes first = {.factor = overflow(0)};
    ASSERT_EQ(TrainInPrecision(broken, fp16 + more, &first, 22).end, TrainEnd::kInterrupted);
    ASSERT_LT(LatestState(broken).grad_scaler->scale, 65536.0F);
    NotingPolicy::Notes second = {.factor = overflow(first.n_losses)};
    TrainInPrecision(broken, fp16 + more + R"(, "resume": true)", &second);
    EXPECT_EQ(DifferingFiles(whole, broken), "") << more;
  }
}

TEST(MixedPrecision, ACheckpointGoesOnInAnotherPrecision) {
  const ScratchFolder scratch;
  for (const auto& [before, after] : {std::pair{"fp16", "no"}, {"no", "fp16"}}) {
    const fs::path output = scratch.path() / before;
    const auto config = [](const char* precision, const char* more) {
      return R"("gradient_accumulate_every": 4, "mixed_precision": ")" + std::string(precision) +
             '"' + more;
    };
    NotingPolicy::Notes notes;
    // two steps after an update: half a window of gradients is in the checkpoint
    ASSERT_EQ(TrainInPrecision(output, config(before, ""), &notes, 25).end, TrainEnd::kInterrupted);
    TrainInPrecision(output, config(after, R"(, "resume": true)"), &notes);
    EXPECT_EQ(LatestState(output).grad_scaler.has_value(), std::string(after) == "fp16");
  }
}

TEST(MixedPrecision, GradientsThatNeverFitEndTheTraining) {
  const ScratchFolder scratch;
  NotingPolicy::Notes notes;
  notes.factor = [](std::int64_t) { return 1e30; };
  testing::internal::CaptureStderr();
  const std::string message = MessageOf(ErrorCode::kNumeric, [&] {
    TrainInPrecision(scratch.path(), R"("mixed_precision": "fp16")", &notes);
  });
  testing::internal::GetCapturedStderr();
  EXPECT_THAT(message, HasSubstr("global_step 31, like all of the last 32 updates, down to a loss "
                                 "scale of 1.52588e-05"));
  EXPECT_THAT(message, HasSubstr("training.mixed_precision to bf16 or no"));
}

TEST(MixedPrecision, WhatIsNotFiniteInBfloat16IsAnErrorAtOnce) {
  for (const char* name : {"no", "bf16"}) {
    const ScratchFolder scratch;
    NotingPolicy::Notes notes;
    notes.factor = [](std::int64_t step) {
      return step == 2 ? std::numeric_limits<double>::infinity() : 1.0;
    };
    EXPECT_THAT(MessageOf(ErrorCode::kNumeric,
                          [&] {
                            TrainInPrecision(scratch.path(),
                                             R"("mixed_precision": ")" + std::string(name) + '"',
                                             &notes);
                          }),
                HasSubstr("the loss is inf at epoch 0, global_step 2"));
  }
}

TEST(MixedPrecision, AutoIsBfloat16WhereItsProductsAreFast) {
  const Config config = Config::FromJson(R"({"mixed_precision": "auto"})", "run.json");
  EXPECT_TRUE(IsAutoPrecision(config));
  EXPECT_EQ(TrainingConfig::FromConfig(config).mixed_precision,
            policy::HasFastBfloat16(torch::kCPU) ? MixedPrecision::kBf16 : MixedPrecision::kNo);
  std::ifstream cpuinfo("/proc/cpuinfo");
  const std::string flags(std::istreambuf_iterator<char>(cpuinfo), {});
  EXPECT_EQ(policy::HasFastBfloat16(torch::kCPU), flags.find(" avx512_bf16") != std::string::npos);
}

TEST(MixedPrecision, UnknownNamesAreExplained) {
  const Config config = Config::FromJson(R"({"mixed_precision": "float16"})", "run.json");
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { TrainingConfig::FromConfig(config); }),
              HasSubstr("mixed_precision: expected one of no, bf16, fp16, auto, found 'float16'"));
}

}  // namespace
}  // namespace dp_bench::train
