// The small parts around the training loop: progress line, log, state, config, batch conversion.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <iterator>
#include <map>
#include <string>

#include "core/atomic_file.h"
#include "core/json_log.h"
#include "core/progress.h"
#include "dp_bench/error.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"
#include "train/batches.h"
#include "train/train_config.h"
#include "train/train_state.h"

namespace dp_bench::train {
namespace {

using testing::HasSubstr;

TEST(JsonLog, CutsBackToThePositionOfTheCheckpoint) {
  const ScratchFolder scratch;
  const auto path = scratch.path() / "logs.json.txt";
  std::int64_t position = 0;
  {
    core::JsonLog log(path, 0);
    log.Append(R"({"a":1})");
    position = log.position();
    log.Append(R"({"a":2})");
  }
  EXPECT_EQ(core::ReadTextFile(path, 100), "{\"a\":1}\n{\"a\":2}\n");
  core::JsonLog log(path, position);
  log.Append(R"({"a":3})");
  EXPECT_EQ(core::ReadTextFile(path, 100), "{\"a\":1}\n{\"a\":3}\n");
}

TEST(JsonLog, StartsAnewAtPositionZero) {
  const ScratchFolder scratch;
  core::WriteFileAtomically(scratch.path() / "log", "old\n");
  core::JsonLog log(scratch.path() / "log", 0);
  EXPECT_EQ(log.position(), 0);
}

class ProgressTest : public testing::Test {
 protected:
  ProgressTest() : file_(std::tmpfile()) {}
  ~ProgressTest() override { std::fclose(file_); }

  core::Progress::Output Output(bool is_terminal) {
    return {.file = file_, .is_terminal = is_terminal, .now = [this] { return now_; }};
  }
  std::string Shown() {
    std::string text(static_cast<std::size_t>(std::ftell(file_)), '\0');
    std::rewind(file_);
    text.resize(std::fread(text.data(), 1, text.size(), file_));
    return text;
  }

  std::FILE* file_;
  double now_ = 0.0;
};

TEST_F(ProgressTest, PlainLinesComeEveryTenSecondsAndAtTheEnd) {
  core::Progress progress(Output(false), 0);
  for (int step = 1; step <= 40; ++step) {
    now_ += 1.0;
    progress.Update({.done = step, .total = 40, .items = 8 * step, .unit = "samples"}, "epoch 0",
                    "loss 0.5");
  }
  const std::string text = Shown();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5);
  EXPECT_THAT(text, HasSubstr("epoch 0  11/40  loss 0.5  8.0 samples/s  ETA 0:00:29\n"));
  EXPECT_THAT(text, HasSubstr("40/40"));
}

TEST_F(ProgressTest, TerminalLineIsDrawnAgainAndLeftByPause) {
  core::Progress progress(Output(true), 0);
  now_ = 1.0;
  progress.Update({.done = 20, .total = 40}, "epoch 0", "loss 0.5");
  progress.Pause();
  EXPECT_EQ(Shown(),
            "\r\033[Kepoch 0  [==========>         ] 20/40  loss 0.5  20 steps/s  ETA 0:00:01\n");
}

TEST_F(ProgressTest, RateCountsItemsAndTheRemainingTimeCountsSteps) {
  core::Progress progress(Output(false), 0);
  now_ = 2.0;
  // one of two steps, of a batch with 6 rows, whatever its configured size
  const core::ProgressState state = {.done = 1, .total = 2, .items = 6, .unit = "samples"};
  EXPECT_EQ(progress.Rate(state), 3.0);
  progress.Update(state, "epoch 0", "loss 0.5");
  EXPECT_THAT(Shown(), HasSubstr("3.0 samples/s  ETA 0:00:02\n"));
}

TEST_F(ProgressTest, TheLineFitsTheTerminalWhateverItsWidth) {
  int columns = 0;
  core::Progress::Output output = Output(true);
  output.columns = [&] { return columns; };
  core::Progress progress(output, 0);
  std::map<int, std::string> lines;
  for (columns = 200; columns > 0; --columns) {  // as while a window is resized
    now_ += 1.0;
    const auto begin = std::ftell(file_);
    progress.Update({.done = 1234, .total = 56789, .items = 7890, .unit = "samples"}, "epoch 12",
                    "loss 0.0312  success 85 %  lr 1.00e-04");
    lines[columns] = Shown().substr(static_cast<std::size_t>(begin) + 4);  // \r\033[K
    EXPECT_LT(std::ssize(lines[columns]), columns);
    EXPECT_EQ(lines[columns].find('\n'), std::string::npos);
    std::fseek(file_, 0, SEEK_END);
  }
  EXPECT_THAT(lines[120],
              HasSubstr("[>                   ] 1234/56789  loss 0.0312  success 85 %  lr"));
  EXPECT_THAT(lines[80], HasSubstr("] 1234/56789  loss 0.0312  "));
  EXPECT_THAT(lines[60], testing::AllOf(HasSubstr("1234/56789"), HasSubstr("ETA")));
  EXPECT_THAT(lines[40], testing::AllOf(HasSubstr("1234/56789"), HasSubstr("ETA")));
}

TEST_F(ProgressTest, OtherWorkIsLeftOutOfTheRateAndAddedToTheEstimateIfKnown) {
  core::Progress progress(Output(false), 0);
  now_ = 12.0;
  progress.LeaveOut(10.0);  // an evaluation
  progress.Update({.done = 20, .total = 40, .other_work = 60.0}, "epoch 0", "loss 0.5");
  EXPECT_THAT(Shown(), HasSubstr("10 steps/s  ETA 0:01:02\n"));
}

TEST_F(ProgressTest, RateCountsThisProcessAlone) {
  core::Progress progress(Output(false), 1000);
  now_ = 2.0;
  EXPECT_EQ(progress.Rate({.done = 1010, .total = 2000}), 5.0);
}

TEST(TrainState, ComesBackBitForBit) {
  TrainState state;
  state.global_step = 123;
  state.train_loss_sum = 0.1 + 0.2;
  state.topk = {{"epoch=0001-a=0.333", 1.0 / 3.0}};
  state.saved_as = {"epoch=0001-a=0.333", "epoch=0001"};
  state.replaced = "epoch=0000-a=0.250";
  EXPECT_EQ(TrainState::FromJson(state.ToJson(), "x"), state);
  state.last_step = {
      .loss = 0.3, .parts = {{"bc", 0.1}}, .grad_norm = 0.7, .lr = 1e-3, .n_rows = 5};
  EXPECT_EQ(TrainState::FromJson(state.ToJson(), "x"), state);
}

TEST(TrainState, DamageNamesTheCheckpoint) {
  for (const char* text : {"", "{}", R"({"global_step": "many"})"}) {
    EXPECT_THAT(MessageOf(ErrorCode::kCheckpoint,
                          [&] { TrainState::FromJson(text, "runs/a/checkpoints/latest"); }),
                HasSubstr("runs/a/checkpoints/latest"));
  }
}

TEST(TrainState, RefusesNamesOfCheckpointsThatLeaveTheFolder) {
  for (const char* name : {"../elsewhere", "epoch=0/../../x", "latest", ""}) {
    TrainState in_table;
    in_table.topk[name] = 0.5;
    TrainState replaced;
    replaced.replaced = name;
    TrainState saved;
    saved.saved_as = {name};
    for (const TrainState& state : {in_table, replaced, saved}) {
      EXPECT_THROW(TrainState::FromJson(state.ToJson(), "x"), Error) << name;
    }
  }
}

TEST(ToBatch, ImagesBecomeChannelFirstViewsOfTheHostMemory) {
  data::HostBatch host;
  host.obs["image"] = Array(DType::kUInt8, {1, 2, 3, 4, 3});  // [B, To, H, W, C]
  host.obs["image"].as<std::uint8_t>()[5] = 200;              // y 0, x 1, blue
  host.action = Array(DType::kFloat32, {1, 4, 2});
  host.is_pad = Array(DType::kUInt8, {1, 4});
  host.is_pad.as<std::uint8_t>()[3] = 1;
  ShapeMeta meta;
  meta.obs = {{.name = "image", .type = KeyType::kRgb, .shape = {3, 3, 4}, .dtype = DType::kUInt8}};
  const Batch batch = ToBatch(host, meta, torch::kCPU);
  const torch::Tensor& image = batch.obs.find("image")->second;
  EXPECT_EQ(image.sizes(), (std::vector<std::int64_t>{1, 2, 3, 3, 4}));
  EXPECT_EQ(image[0][0][2][0][1].item<int>(), 200);
  EXPECT_EQ(image.data_ptr(), host.obs["image"].bytes().data());
  EXPECT_EQ(batch.is_pad.scalar_type(), torch::kBool);
  EXPECT_TRUE(batch.is_pad[0][3].item<bool>());
}

TEST(BatchNoise, RowsAndPurposesDiffer) {
  const auto first = [](NoisePurpose purpose, std::uint64_t number) {
    return BatchNoise(42, purpose, number, 2).Randn(StreamId::kTrainingNoise, {2, 3});
  };
  const torch::Tensor a = first(NoisePurpose::kTraining, 7);
  EXPECT_TRUE(torch::equal(a, first(NoisePurpose::kTraining, 7)));
  EXPECT_FALSE(torch::equal(a[0], a[1]));
  EXPECT_FALSE(torch::equal(a, first(NoisePurpose::kTraining, 8)));
  EXPECT_FALSE(torch::equal(a, first(NoisePurpose::kValidation, 7)));
}

TEST(TrainingConfig, RefusesNumbersThatMeanNothing) {
  const auto fault = [](const std::string& text) {
    return MessageOf(ErrorCode::kConfig, [&] {
      TrainingConfig::FromConfig(Config::FromJson(text));
      DataLoaderConfig::FromConfig(Config::FromJson(text), true);
      SplitConfig::FromConfig(Config::FromJson(text));
    });
  };
  for (const char* minutes : {"-1", "0", "-1e-9"}) {
    EXPECT_THAT(fault(fmt::format(R"({{"max_minutes": {}}})", minutes)),
                HasSubstr("expected more than 0 minutes, or null for no limit"));
  }
  for (const char* key :
       {"max_train_steps", "max_val_steps", "max_train_episodes", "num_workers", "batch_size"}) {
    EXPECT_THAT(fault(fmt::format(R"({{"{}": -1}})", key)), HasSubstr(key)) << key;
  }
  EXPECT_THAT(fault(R"({"num_workers": 2000000000})"), HasSubstr("num_workers"));
  EXPECT_FALSE(
      TrainingConfig::FromConfig(Config::FromJson(R"({"max_minutes": null})")).max_minutes);
}

TEST(TrainingConfig, DebugMakesEverythingShortAndDue) {
  const auto config = TrainingConfig::FromConfig(
      Config::FromJson(R"({"debug": true, "num_epochs": 3050, "rollout_every": 50})"));
  EXPECT_EQ(config.num_epochs, 2);
  EXPECT_EQ(config.rollout_every, 1);
  EXPECT_EQ(config.max_train_steps, 3);
}

}  // namespace
}  // namespace dp_bench::train
