// The output of a training in logs.json.txt and in TensorBoard's event files.
#include "train/training_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/train/workspace/fake_training.h"
#include "support/error_of.h"
#include "support/event_file.h"
#include "support/file_size_limit.h"
#include "support/folder_content.h"
#include "support/scratch_folder.h"

namespace dp_bench::train {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

std::vector<fs::path> EventFiles(const fs::path& run_folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(run_folder / "tensorboard")) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);  // as TensorBoard reads them
  return files;
}

/// The events of the run's only file.
std::vector<std::string> EventsOf(const fs::path& run_folder) {
  const std::vector<fs::path> files = EventFiles(run_folder);
  EXPECT_THAT(files, SizeIs(1));
  return ReadEvents(files.at(0));
}

/// The steps, of those below 100, at which some event has exactly this tag.
std::set<int> StepsWith(const std::string& tag, const fs::path& run_folder) {
  std::string field(1, '\x0a');  // its number and wire type, then length and text
  field += static_cast<char>(tag.size());
  field += tag;
  std::set<int> steps;
  for (const std::string& event : EventsOf(run_folder)) {
    // step 0 is left out of an event: then the summary's field comes first
    if (event.find(field) != std::string::npos) steps.insert(event[0] == '\x10' ? event[1] : 0);
  }
  return steps;
}

std::string JsonOf(const fs::path& run_folder) {
  return core::ReadTextFile(run_folder / "logs.json.txt", 1U << 20);
}

/// A log of two parameters: 3 and 4 with a gradient, and 12 without.
class TrainingLogTest : public testing::Test {
 protected:
  TrainingLogTest() {
    group_.names = {"linear.weight", "linear.bias"};
    group_.parameters = {torch::tensor({3.0F, 4.0F}), torch::tensor({12.0F})};
    group_.parameters[0].mutable_grad() = torch::tensor({-1.0F, 2.0F});
  }

  TrainingLog Open(const LoggingConfig& config, const TrainState& state = {}) {
    return TrainingLog({.run_folder = folder(),
                        .config = config,
                        .groups = {group_},
                        .now = [this] { return now_; }},
                       state);
  }

  /// A step of a batch of 8 whose phases take the given times [s].
  void AddTimedStep(TrainingLog* log, std::int64_t global_step, const std::vector<double>& phases) {
    log->timer().Start();
    for (std::size_t i = 0; i < phases.size(); ++i) {
      now_ += phases[i];
      log->timer().Lap(static_cast<StepPhase>(i));
    }
    now_ += 100.0;  // between two steps
    log->AddStep({.global_step = global_step}, step_);
  }

  const fs::path& folder() const { return scratch_.path(); }

  ScratchFolder scratch_;
  ParameterGroup group_;
  double now_ = 0.0;
  TrainStepResult step_{
      .loss = 0.5, .parts = {{"half", 0.25}}, .grad_norm = 2.0, .lr = 0.125, .n_rows = 8};
};

TEST_F(TrainingLogTest, TheNormOfTheParametersIsInTheLinesThatHaveRanges) {
  TrainingLog log = Open({.every = 1, .ranges_every = 2});
  log.AddStep({.global_step = 3}, step_);
  EXPECT_THAT(JsonOf(folder()), Not(HasSubstr("param_norm")));
  log.AddStep({.global_step = 4}, step_);
  EXPECT_THAT(JsonOf(folder()), HasSubstr("\"param_norm\":13.0"));
  log.Flush();
  EXPECT_THAT(StepsWith("train/param_norm", folder()), ElementsAre(3, 4));
}

TEST_F(TrainingLogTest, JsonLinesHaveTheKeysOfUpstreamInOneOrder) {
  TrainingLog log = Open({.every = 1});
  log.AddStep({.global_step = 3, .epoch = 1}, {.loss = 0.1, .lr = 1e-4});
  log.AddStep({.global_step = 4, .epoch = 1}, step_);
  log.AddEpochEnd({.global_step = 5, .epoch = 1}, step_,
                  {{"val_loss", std::numeric_limits<double>::quiet_NaN()}, {"test/a", 1.0}});
  const std::string wanted =
      "{\"train_loss\":0.1,\"global_step\":3,\"epoch\":1,\"lr\":0.0001}\n"
      "{\"train_loss\":0.5,\"global_step\":4,\"epoch\":1,\"lr\":0.125,\"grad_norm\":2.0,"
      "\"train_half\":0.25}\n"
      "{\"train_loss\":0.5,\"global_step\":5,\"epoch\":1,\"lr\":0.125,\"grad_norm\":2.0,"
      "\"train_half\":0.25,\"test/a\":1.0,\"val_loss\":null}\n";
  EXPECT_EQ(JsonOf(folder()), wanted);
  EXPECT_EQ(log.Flush(), static_cast<std::int64_t>(wanted.size()));
}

TEST_F(TrainingLogTest, TensorBoardShowsTheValuesOfTheLineUnderItsKeys) {
  TrainingLog log = Open({});
  log.AddEpochEnd({.global_step = 5, .epoch = 1}, step_, {{"test/mean_score", 0.75}});
  const std::vector<std::string> events = EventsOf(folder());
  EXPECT_EQ(events[0], FileVersionEvent(0.0));
  EXPECT_EQ(events[1], SessionStartEvent(Step(0)));
  const std::vector<std::string> values(events.begin() + 2, events.begin() + 9);
  EXPECT_THAT(values, ElementsAre(ScalarEvent(Step(5), "train/loss", 0.5F),
                                  ScalarEvent(Step(5), "epoch", 1.0F),
                                  ScalarEvent(Step(5), "train/lr", 0.125F),
                                  ScalarEvent(Step(5), "train/grad_norm", 2.0F),
                                  ScalarEvent(Step(5), "train_half", 0.25F),
                                  ScalarEvent(Step(5), "test/mean_score", 0.75F),
                                  ScalarEvent(Step(5), "train/param_norm", 13.0F)));
  EXPECT_THAT(events, Not(Contains(HasSubstr("global_step"))));
}

TEST_F(TrainingLogTest, ParamNormIsOfAllParametersWhateverTheirLayout) {
  group_.names = {"many", "transposed", "single"};
  group_.parameters = {torch::full({5, 5}, 2.0F), torch::full({3, 4}, 1.0F).t(),
                       torch::full({2}, 6.0F)};
  group_.parameters[0][4][4] = -7.0F;  // 24 * 4 + 49 = 145
  TrainingLog log = Open({});
  log.AddStep({}, step_);
  EXPECT_THAT(EventsOf(folder()), Contains(ScalarEvent(Step(0), "train/param_norm",
                                                       std::sqrt(145.0F + 12.0F + 72.0F))));
}

TEST_F(TrainingLogTest, PointsComeEachNthStepAndAtTheEndOfAnEpoch) {
  TrainingLog log = Open({.every = 4});
  for (int step = 0; step < 9; ++step) log.AddStep({.global_step = step}, step_);
  log.AddEpochEnd({.global_step = 9}, step_, {});
  EXPECT_THAT(StepsWith("train/loss", folder()), ElementsAre(0, 4, 8, 9));
  EXPECT_THAT(StepsWith("perf/step_time", folder()), ElementsAre(0, 4, 8, 9));
}

TEST_F(TrainingLogTest, WithAccumulationThePointIsAtTheStepThatCompletesTheUpdate) {
  TrainingLog log = Open({.every = 4});
  for (int step = 0; step < 12; ++step) {
    step_.grad_norm = step % 3 == 2 ? std::optional(2.0) : std::nullopt;
    log.AddStep({.global_step = step}, step_);
  }
  EXPECT_THAT(StepsWith("train/grad_norm", folder()), ElementsAre(2, 5, 8));
  EXPECT_THAT(StepsWith("train/loss", folder()), ElementsAre(2, 5, 8));
}

TEST_F(TrainingLogTest, AnEpochThatEndsWithASkippedUpdateOfFloat16HasItsPoint) {
  step_.grad_norm.reset();
  step_.parts = {{"grad_scale", 1024.0}};
  TrainingLog log = Open({.every = 4});
  log.AddEpochEnd({.global_step = 5}, step_, {{"test/mean_score", 0.75}});
  EXPECT_THAT(EventsOf(folder()), Contains(ScalarEvent(Step(5), "test/mean_score", 0.75F)));
}

TEST_F(TrainingLogTest, TimesAreMeansOverTheStepsSinceTheLastPoint) {
  TrainingLog log = Open({.every = 2});
  AddTimedStep(&log, 0, {9.0, 9.0, 9.0, 9.0, 9.0});
  AddTimedStep(&log, 1, {1.0, 2.0, 4.0, 0.5, 0.5});
  AddTimedStep(&log, 2, {3.0, 2.0, 2.0, 0.5, 0.5});
  EXPECT_THAT(EventsOf(folder()),
              AllOf(Contains(ScalarEvent(Step(2), "perf/samples_per_second", 1.0F)),
                    Contains(ScalarEvent(Step(2), "perf/data_wait_share", 0.25F)),
                    Contains(ScalarEvent(Step(2), "perf/step_time", 8.0F)),
                    Contains(ScalarEvent(Step(2), "perf/forward_time", 2.0F)),
                    Contains(ScalarEvent(Step(2), "perf/backward_time", 3.0F)),
                    Contains(ScalarEvent(Step(2), "perf/optimizer_time", 0.5F)),
                    Contains(ScalarEvent(Step(2), "perf/ema_time", 0.5F)),
                    Contains(HasSubstr("perf/resident_memory_mib"))));
}

TEST_F(TrainingLogTest, AContinuationShadowsTheStepsFromItsCheckpointOn) {
  TrainState state;
  {
    TrainingLog log = Open({.every = 1});
    for (int step = 0; step < 6; ++step) {
      log.AddStep({.global_step = step}, step_);
      if (step == 3) state = {.global_step = 4, .log_position = log.Flush()};
    }
  }
  const std::string before = JsonOf(folder());
  TrainingLog log = Open({.every = 1}, state);
  EXPECT_EQ(std::ssize(JsonOf(folder())), state.log_position);
  log.AddStep({.global_step = 4}, step_);
  log.AddStep({.global_step = 5}, step_);
  EXPECT_EQ(JsonOf(folder()), before);

  const std::vector<fs::path> files = EventFiles(folder());
  ASSERT_THAT(files, SizeIs(2));
  const std::vector<std::string> events = ReadEvents(files[1]);
  EXPECT_EQ(events[1], SessionStartEvent(Step(4)));
  EXPECT_EQ(events[2], ScalarEvent(Step(4), "train/loss", 0.5F));
  EXPECT_THAT(events, Not(Contains(HasSubstr("config")))) << "it is in the first file";
}

TEST_F(TrainingLogTest, WithoutTensorBoardThereIsNoFolder) {
  TrainingLog log = Open({.tensorboard = false, .every = 1});
  log.AddStep({}, step_);
  log.Flush();
  EXPECT_FALSE(fs::exists(folder() / "tensorboard"));
}

TEST_F(TrainingLogTest, EventsThatCannotBeWrittenAreAnErrorThatNamesTheirFile) {
  TrainingLog log = Open({.every = 1});
  const FileSizeLimit limit(300);  // two lines of JSON, but not the events of one step
  EXPECT_THAT(MessageOf(ErrorCode::kIo, [&] { log.AddStep({}, step_); }),
              HasSubstr("tensorboard/events.out.tfevents."));
}

void Train(const fs::path& output, const std::string& training, const std::string& logging,
           std::function<double()> now, const std::function<void(int n)>& on_loss = {}) {
  const FakeDataset dataset;
  const Config config =
      Changed(FakeConfig(training), {{"logging", nlohmann::json::parse(logging)}});
  WorkspaceParts parts = FakeParts(config, dataset, output);
  parts.progress.now = std::move(now);
  parts.create_policy = MakePoliciesThatCount(on_loss);
  Workspace(std::move(parts)).Run(FakeEvaluate);
}

TEST(TrainingLog, ClockAndSettingsOfTensorBoardNeverReachTheJson) {
  const ScratchFolder scratch;
  double now = 0.0;
  Train(scratch.path() / "still", "", R"({"tensorboard": false})", [] { return 0.0; });
  Train(scratch.path() / "moving", "", R"({"every": 3})", [&now] { return now += 0.25; });
  EXPECT_EQ(JsonOf(scratch.path() / "still"), JsonOf(scratch.path() / "moving"));
  // the end of each of the five phases reads the clock once
  EXPECT_THAT(EventsOf(scratch.path() / "moving"),
              Contains(ScalarEvent(Step(3), "perf/step_time", 1.25F)));
}

TEST(TrainingLog, AFullDiskStopsTheTrainingAndItGoesOnFromTheLastCheckpoint) {
  const ScratchFolder scratch;
  const fs::path whole = scratch.path() / "whole";
  const fs::path full = scratch.path() / "full";
  const std::string logging = R"({"every": 1})";
  const auto still = [] { return 0.0; };
  Train(whole, "", logging, still);

  // 10 batches and 3 to validate per epoch: the disk is full in epoch 1, the checkpoint of epoch 0
  // is there
  int n_losses = 0;
  std::optional<FileSizeLimit> limit;
  const auto fill_disk = [&](int n) {
    n_losses = n;
    if (n == 18) limit.emplace(fs::file_size(EventFiles(full).at(0)));
  };
  EXPECT_THAT(MessageOf(ErrorCode::kIo, [&] { Train(full, "", logging, still, fill_disk); }),
              HasSubstr("events.out.tfevents."));
  limit.reset();
  EXPECT_EQ(n_losses, 18);
  Train(full, R"("resume": true)", logging, still);
  EXPECT_EQ(DifferingFiles(whole, full), "");
}

}  // namespace
}  // namespace dp_bench::train
