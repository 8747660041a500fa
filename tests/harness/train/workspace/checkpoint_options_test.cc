// Which parts of a training go into which checkpoints, and trainings that start from another one's.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "data/split.h"
#include "harness/train/workspace/fake_training.h"
#include "planner/policy_weights.h"
#include "support/error_of.h"
#include "support/folder_content.h"
#include "support/scratch_folder.h"
#include "train/resume_point.h"

namespace dp_bench::train {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

/// 4 epochs of 10 batches and 3 to validate; `checkpoint` and `training` are keys of those
/// sections.
Config ConfigOf(const std::string& checkpoint, const std::string& training = "") {
  const std::string more = training.empty() ? "" : ", " + training;
  return Config::FromJson(R"({"training": {"num_epochs": 4, "checkpoint_every": 1,
      "lr_warmup_steps": 5)" +
                          more + R"(}, "optimizer": {"lr": 0.05},
      "dataloader": {"batch_size": 7}, "val_dataloader": {"batch_size": 5, "num_workers": 0},
      "dataset": {"val_ratio": 0.17, "seed": 1}, "checkpoint": {)" +
                          checkpoint + "}}");
}

struct Hooks {
  std::function<void(Workspace&, int epoch)> on_evaluation = {};
  std::function<void(int n)> on_loss = {};
  const std::atomic<bool>* stop = nullptr;
  std::atomic<bool>* snapshot = nullptr;
};

/// The score falls with the epochs.
TrainReport TrainWithConfig(const fs::path& output, const Config& config, const Hooks& hooks = {}) {
  const FakeDataset dataset;
  WorkspaceParts parts = FakeParts(config, dataset, output);
  parts.stop = hooks.stop;
  parts.snapshot = hooks.snapshot;
  parts.create_policy = MakePoliciesThatCount(hooks.on_loss);
  Workspace workspace(std::move(parts));
  return workspace.Run([&](Policy& /*policy*/, int epoch) -> std::optional<Scores> {
    if (hooks.on_evaluation) hooks.on_evaluation(workspace, epoch);
    return Scores{.metrics = {{"test/mean_score", 1.0 / (epoch + 1)}}};
  });
}

std::set<std::string> CheckpointsOf(const fs::path& run) { return NamesIn(run / "checkpoints"); }

std::set<std::string> FilesOf(const fs::path& checkpoint) {
  std::set<std::string> names;
  for (const auto& [name, content] : FilesBelow(checkpoint)) names.insert(name);
  return names;
}

TEST(CheckpointParts, CheckpointWithoutTheOptimizerIsEvaluatedButNotResumed) {
  const ScratchFolder scratch;
  const std::string without = R"("exclude_keys": ["optimizer"])";
  testing::internal::CaptureStderr();
  TrainWithConfig(scratch.path(), ConfigOf(without));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("leave out optimizer: it cannot be resumed"));
  const fs::path latest = scratch.path() / "checkpoints" / "latest";
  EXPECT_THAT(FilesOf(latest),
              ElementsAre("config.json", "ema.safetensors", "manifest.json", "model.safetensors",
                          "normalizer.safetensors", "state.json"));
  auto policy = MakeFakePolicy();
  planner::LoadPolicyWeights(run::Checkpoint::Open(latest), *policy, planner::Weights::kEma);

  const auto before = FilesBelow(scratch.path());
  EXPECT_THAT(
      MessageOf(ErrorCode::kCheckpoint,
                [&] { TrainWithConfig(scratch.path(), ConfigOf(without, R"("resume": true)")); }),
      AllOf(HasSubstr(latest.string()), HasSubstr("saved without optimizer"),
            HasSubstr("dp_bench eval")));
  EXPECT_EQ(FilesBelow(scratch.path()), before);
}

TEST(CheckpointParts, OnlyIncludedPartsAreSaved) {
  const ScratchFolder scratch;
  TrainWithConfig(scratch.path(), ConfigOf(R"("include_keys": ["ema"])"));
  const auto files = FilesOf(scratch.path() / "checkpoints" / "latest");
  EXPECT_THAT(files, AllOf(IsSupersetOf({"ema.safetensors", "normalizer.safetensors"}),
                           Not(testing::Contains("model.safetensors")),
                           Not(testing::Contains("optimizer.safetensors"))));
}

TEST(CheckpointParts, UnknownPartsAndCheckpointsWithoutAPolicyAreErrors) {
  const ScratchFolder scratch;
  const auto error_of = [&](const char* keys, const char* training = "") {
    return MessageOf(ErrorCode::kConfig,
                     [&] { TrainWithConfig(scratch.path(), ConfigOf(keys, training)); });
  };
  EXPECT_THAT(error_of(R"("exclude_keys": ["optimiser"])"),
              HasSubstr("'optimiser' is not a selectable part of a checkpoint; the parts are "
                        "model, ema, optimizer"));
  EXPECT_THAT(error_of(R"("exclude_keys": ["model", "ema"])"), HasSubstr("has no policy"));
  EXPECT_THAT(error_of(R"("include_keys": ["ema"])", R"("use_ema": false)"),
              HasSubstr("a checkpoint without model has no policy"));
  EXPECT_TRUE(fs::is_empty(scratch.path())) << "it had begun";
}

TEST(CheckpointParts, PythonOpensTheTensorsAndFindsTheSameNumbers) {
  const ScratchFolder scratch;
  const TrainReport report = TrainWithConfig(scratch.path() / "run", ConfigOf(""));
  const run::Checkpoint checkpoint = run::Checkpoint::Open(*report.latest);
  core::WriteFileAtomically(scratch.path() / "rewrite.py",
                            "import sys\n"
                            "from safetensors.torch import load_file, save_file\n"
                            "save_file(load_file(sys.argv[1]), sys.argv[2])\n");
  const std::string python = std::string(DPB_SOURCE_DIR) + "/.venv/bin/python";
  for (const std::string_view file : {run::kModelFile, run::kOptimizerFile}) {
    const fs::path copy = scratch.path() / file;
    const std::string command = python + " " + (scratch.path() / "rewrite.py").string() + " " +
                                (checkpoint.folder() / file).string() + " " + copy.string();
    ASSERT_EQ(std::system(command.c_str()), 0);
    const ArrayMap wanted = checkpoint.ReadTensors(file);
    const ArrayMap found = run::ReadSafetensors(copy).tensors;
    ASSERT_EQ(found.size(), wanted.size());
    for (const auto& [name, array] : wanted) {
      EXPECT_EQ(found.at(name).dtype(), array.dtype()) << name;
      EXPECT_EQ(found.at(name).shape(), array.shape()) << name;
      EXPECT_TRUE(std::ranges::equal(found.at(name).bytes(), array.bytes())) << name;
    }
  }
}

TEST(Retention, EveryNthEpochAndTheLastAreKeptBesideTheBestAndTheLatest) {
  const ScratchFolder scratch;
  TrainWithConfig(scratch.path(), ConfigOf(R"("keep_every": 2, "topk": {"k": 1})"));
  EXPECT_THAT(CheckpointsOf(scratch.path()),
              ElementsAre("epoch=0000", "epoch=0000-test_mean_score=1.000", "epoch=0002",
                          "epoch=0003", "latest"));
  const run::Checkpoint kept = run::Checkpoint::Open(scratch.path() / "checkpoints" / "epoch=0002");
  EXPECT_EQ(TrainState::FromJson(kept.state(), "x").epoch, 3);  // the next one
}

TEST(Retention, WithoutTheLatestItGoesOnFromTheLatestKeptEpoch) {
  const ScratchFolder scratch;
  const std::string kept = R"("keep_every": 1, "save_last_ckpt": false, "topk": {"k": 0})";
  TrainWithConfig(scratch.path() / "whole", ConfigOf(kept));
  const fs::path broken = scratch.path() / "broken";
  const auto die = [](int n) {
    if (n == 30) throw Error(ErrorCode::kInternal, "power cut");
  };
  EXPECT_THROW(TrainWithConfig(broken, ConfigOf(kept), {.on_loss = die}), Error);
  EXPECT_THAT(CheckpointsOf(broken), ElementsAre("epoch=0000", "epoch=0001"));
  TrainWithConfig(broken, ConfigOf(kept, R"("resume": true)"));
  EXPECT_EQ(DifferingFiles(scratch.path() / "whole", broken), "");
}

TEST(Retention, WithoutTheLatestThatOfAnInterruptionDoesNotOutliveTheNextCheckpoint) {
  const ScratchFolder scratch;
  const fs::path whole = scratch.path() / "whole";
  const fs::path stopped = scratch.path() / "stopped";
  const std::string kept = R"("keep_every": 1, "save_last_ckpt": false, "topk": {"k": 0})";
  TrainWithConfig(whole, ConfigOf(kept));
  std::atomic<bool> stop = false;
  TrainWithConfig(stopped, ConfigOf(kept),
                  {.on_loss = [&](int n) { stop = stop || n == 30; }, .stop = &stop});
  EXPECT_TRUE(CheckpointsOf(stopped).contains("latest"));
  TrainWithConfig(stopped, ConfigOf(kept, R"("resume": true)"));
  EXPECT_EQ(DifferingFiles(whole, stopped), "");
}

TEST(TopK, AnyLoggedMetricRanksAndItsTableSurvivesAResume) {
  for (const char* metric :
       {"train_loss", "val_loss", "train_action_mse_error", "test/mean_score"}) {
    const ScratchFolder scratch;
    const std::string keys =
        fmt::format(R"("topk": {{"monitor_key": "{}", "mode": "min", "k": 2}})", metric);
    const auto config = [&](const std::string& more) {
      return ConfigOf(keys, R"("rollout_every": 1, "sample_every": 1)" + more);
    };
    const fs::path whole = scratch.path() / "whole";
    const fs::path broken = scratch.path() / "broken";
    TrainWithConfig(whole, config(""));
    EXPECT_EQ(CheckpointsOf(whole).size(), 3U) << metric;
    std::atomic<bool> stop = false;
    TrainWithConfig(broken, config(""),
                    {.on_loss = [&](int n) { stop = stop || n == 33; }, .stop = &stop});
    EXPECT_NE(DifferingFiles(whole, broken), "") << metric;
    TrainWithConfig(broken, config(R"(, "resume": true)"));
    EXPECT_EQ(DifferingFiles(whole, broken), "") << metric;
  }
}

TEST(TopK, MetricThatIsNotDueAtAnEvaluationEndsNothing) {
  const ScratchFolder scratch;
  const TrainReport report = TrainWithConfig(
      scratch.path(), ConfigOf(R"("topk": {"monitor_key": "val_loss", "mode": "min"})",
                               R"("rollout_every": 2, "val_every": 3)"));
  EXPECT_EQ(report.epoch, 4);
}

TEST(TopK, WrongNameIsAnErrorAfterTheFirstEpochOrAWarningWithoutEvaluations) {
  const ScratchFolder scratch;
  const std::string wrong = R"("topk": {"monitor_key": "test_mean_reward"})";
  EXPECT_THAT(MessageOf(ErrorCode::kConfig,
                        [&] { TrainWithConfig(scratch.path() / "a", ConfigOf(wrong)); }),
              HasSubstr("test/mean_score, train_action_mse_error, train_loss, val_loss"));
  testing::internal::CaptureStderr();
  TrainWithConfig(scratch.path() / "b", ConfigOf(wrong, R"("rollout_every": 0)"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("'test_mean_reward' is not measured in this training"));
}

/// Its only validation episode is shorter than a sequence.
class ShortValidation final : public FakeDataset {
 public:
  std::span<const std::int64_t> episode_ends() const override { return ends_; }

 private:
  static std::vector<std::int64_t> Ends() {
    std::vector<std::int64_t> ends;
    for (const bool is_val : data::SplitEpisodes(6, 0.17, std::nullopt, 1).val) {
      ends.push_back((ends.empty() ? 0 : ends.back()) + (is_val ? 1 : 14));
    }
    return ends;
  }

  std::vector<std::int64_t> ends_ = Ends();
};

TEST(TopK, AValidationLossThatNoEpisodeGivesIsRefusedBeforeTheTraining) {
  const ScratchFolder scratch;
  const ShortValidation dataset;
  const auto make = [&](const std::string& metric) {
    const std::string keys = fmt::format(R"("topk": {{"monitor_key": "{}"}})", metric);
    const Workspace workspace(FakeParts(ConfigOf(keys), dataset, scratch.path()));
  };
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { make("val_loss"); }),
              AllOf(HasSubstr("monitor_key is val_loss, but there is no val_loss: all 1 "),
                    HasSubstr("more with dataset.val_ratio")));
  testing::internal::CaptureStderr();
  make("train_loss");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("no val_loss: all 1 "));
}

TEST(TopK, AValidationLossWithoutValidationEpisodesIsRefusedToo) {
  const ScratchFolder scratch;
  const FakeDataset dataset;
  const Config config = Changed(ConfigOf(R"("topk": {"monitor_key": "val_loss"})"),
                                {{"dataset", {{"val_ratio", 0.0}}}});
  EXPECT_THAT(
      MessageOf(ErrorCode::kConfig, [&] { Workspace(FakeParts(config, dataset, scratch.path())); }),
      HasSubstr("dataset.val_ratio leaves no validation episode"));
}

std::map<std::string, ArrayMap, std::less<>> TensorsOf(const run::Checkpoint& checkpoint) {
  std::map<std::string, ArrayMap, std::less<>> tensors;
  for (const std::string_view file :
       {run::kModelFile, run::kEmaFile, run::kNormalizerFile, run::kOptimizerFile}) {
    tensors[std::string(file)] = checkpoint.ReadTensors(file);
  }
  return tensors;
}

// a crash between the save and the removal leaves one checkpoint too many
TEST(TopK, ResumeRemovesWhatACrashLeftOfTheReplacedOne) {
  const ScratchFolder scratch;
  const std::string keys = R"("topk": {"monitor_key": "val_loss", "mode": "min", "k": 1})";
  TrainWithConfig(scratch.path() / "whole", ConfigOf(keys));
  const fs::path broken = scratch.path() / "broken";
  std::atomic<bool> stop = false;
  TrainWithConfig(broken, ConfigOf(keys),
                  {.on_loss = [&](int n) { stop = stop || n == 30; }, .stop = &stop});
  const run::Checkpoint latest = run::Checkpoint::Open(broken / "checkpoints" / "latest");
  std::string state = latest.state();
  state.insert(state.find("\"topk\""), "\"replaced\": \"epoch=0000-val_loss=0.123\", ");
  const fs::path left = broken / "checkpoints" / "epoch=0000-val_loss=0.123";
  fs::copy(latest.folder(), left);
  run::CheckpointStore(broken / "checkpoints")
      .Save(run::kLatest,
            {.tensors = TensorsOf(latest), .config = latest.config(), .state = state});
  TrainWithConfig(broken, ConfigOf(keys, R"("resume": true)"));
  EXPECT_EQ(DifferingFiles(scratch.path() / "whole", broken), "");
}

class InitCheckpointTest : public testing::Test {
 protected:
  InitCheckpointTest() { TrainWithConfig(first_, ConfigOf("")); }

  /// The model of a training that starts from `first_`, after a step with the rate 0 of the
  /// warm-up.
  ArrayMap WeightsOf(const std::string& init) {
    const fs::path output = scratch_.path() / fmt::format("second_{}", n_runs_++);
    std::atomic<bool> stop = true;
    const std::string training = fmt::format(R"("init_checkpoint": {{"path": "{}"{}}})",
                                             (first_ / "checkpoints" / "latest").string(), init);
    TrainWithConfig(output, ConfigOf("", training), {.stop = &stop});
    checkpoint_ = run::Checkpoint::Open(output / "checkpoints" / "latest");
    return checkpoint_->ReadTensors(run::kModelFile);
  }

  run::Checkpoint First() { return run::Checkpoint::Open(first_ / "checkpoints" / "latest"); }

  static bool AreEqual(const Array& a, const Array& b) {
    return std::ranges::equal(a.bytes(), b.bytes());
  }

  ScratchFolder scratch_;
  fs::path first_ = scratch_.path() / "first";
  std::optional<run::Checkpoint> checkpoint_;
  int n_runs_ = 0;
};

TEST_F(InitCheckpointTest, TrainingBeginsWithTheWeightsAskedForAndSoDoesItsEma) {
  for (const char* weights : {"ema", "model"}) {
    const ArrayMap began = WeightsOf(fmt::format(R"(, "weights": "{}")", weights));
    const ArrayMap wanted = First().ReadTensors(std::string(weights) + ".safetensors");
    EXPECT_TRUE(AreEqual(began.at("linear.weight"), wanted.at("linear.weight")));
    EXPECT_TRUE(AreEqual(began.at("linear.bias"), wanted.at("linear.bias")));
    const ArrayMap ema = checkpoint_->ReadTensors(run::kEmaFile);
    EXPECT_TRUE(AreEqual(ema.at("linear.weight"), wanted.at("linear.weight")));
  }
}

TEST_F(InitCheckpointTest, KeysChooseAmongTheTensorsAndTheOthersBeginAnew) {
  const ArrayMap wanted = First().ReadTensors(run::kEmaFile);
  for (const char* keys :
       {R"(, "include_keys": ["weight$"])", R"(, "exclude_keys": ["bias", "n_losses"])"}) {
    const ArrayMap began = WeightsOf(keys);
    EXPECT_TRUE(AreEqual(began.at("linear.weight"), wanted.at("linear.weight"))) << keys;
    EXPECT_FALSE(AreEqual(began.at("linear.bias"), wanted.at("linear.bias"))) << keys;
  }
}

TEST_F(InitCheckpointTest, KeyThatIsFoundInNoNameIsAnError) {
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { WeightsOf(R"(, "exclude_keys": ["head"])"); }),
              HasSubstr("'head' matches none of the names: linear.bias, linear.weight, "
                        "n_losses"));
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { WeightsOf(R"(, "include_keys": ["("])"); }),
              HasSubstr("'(' is not a regular expression"));
}

TEST(LoadSelectedState, NamesWhatDoesNotFitAndCopiesNothing) {
  auto policy = MakeFakePolicy();
  ArrayMap tensors = planner::ModuleState(policy->module());
  const torch::Tensor before = policy->module().parameters()[0].clone();
  tensors["linear.bias"] = Array(DType::kFloat32, {9});
  tensors["linear.weight"].as<float>()[0] = 77.0F;
  tensors["head.weight"] = Array(DType::kFloat32, {1});
  const auto load = [&](const planner::TensorSelection& selection) {
    return planner::LoadSelectedState(policy->module(), tensors, selection, "there");
  };
  EXPECT_THAT(MessageOf(ErrorCode::kCheckpoint, [&] { load({}); }),
              AllOf(HasSubstr("'there'"), HasSubstr("linear.bias: expected float32 [8], found"),
                    HasSubstr("head.weight: not part of the policy"), HasSubstr("exclude_keys")));
  EXPECT_TRUE(torch::equal(policy->module().parameters()[0], before));
  EXPECT_EQ(load({.exclude_keys = {"bias", "head"}}), 2U);
  EXPECT_EQ(policy->module().parameters()[0].flatten()[0].item<float>(), 77.0F);
}

constexpr const char* kTraining = R"("rollout_every": 2, "gradient_accumulate_every": 3)";

TEST(Snapshot, OfAnyMomentContinuesElsewhereToTheSameFiles) {
  const ScratchFolder scratch;
  const fs::path whole = scratch.path() / "whole";
  const Config config = ConfigOf("", kTraining);
  const Config resumed = ConfigOf("", std::string(kTraining) + R"(, "resume": true)");
  // in an evaluation, and requested by a signal at a step inside an accumulation window
  std::atomic<bool> snapshot = false;
  const Hooks hooks = {.on_evaluation =
                           [](Workspace& workspace, int epoch) {
                             if (epoch == 2) workspace.SaveSnapshot("evaluation");
                           },
                       .on_loss =
                           [&](int n) {
                             if (n == 18) snapshot = true;
                           },
                       .snapshot = &snapshot};
  TrainWithConfig(whole, config, hooks);
  EXPECT_FALSE(snapshot.load()) << "a request is taken once";
  for (const char* tag : {"evaluation", "step=0000015"}) {
    const fs::path elsewhere = scratch.path() / tag;
    const fs::path folder = whole / kSnapshotFolder / tag;
    EXPECT_EQ(fs::exists(folder / "checkpoints/latest" / run::kGradientsFile),
              std::string(tag) != "evaluation");
    const FolderContent before = FilesBelow(folder);
    CreateFromSnapshot(folder, elsewhere);
    EXPECT_EQ(TrainWithConfig(elsewhere, resumed).global_step, 40);
    EXPECT_EQ(FilesBelow(folder), before);
    for (const char* file : {"checkpoints/latest/ema.safetensors", "logs.json.txt",
                             "checkpoints/latest/optimizer.safetensors"}) {
      EXPECT_EQ(FilesBelow(elsewhere).at(file), FilesBelow(whole).at(file)) << tag << " " << file;
    }
  }
}

TEST(Snapshot, HoldsEveryPartWhateverTheCheckpointsLeaveOut) {
  const ScratchFolder scratch;
  const Hooks hooks = {.on_evaluation = [](Workspace& workspace, int /*epoch*/) {
    workspace.SaveSnapshot("latest");
  }};
  TrainWithConfig(scratch.path(), ConfigOf(R"("exclude_keys": ["optimizer"])"), hooks);
  EXPECT_TRUE(
      fs::exists(scratch.path() / "snapshots/latest/checkpoints/latest" / run::kOptimizerFile));
}

TEST(Snapshot, BadTagsAndFoldersAreErrors) {
  const ScratchFolder scratch;
  for (const char* tag : {"", ".", "a/b", "../x"}) {
    EXPECT_EQ(CodeOf([&] { WriteSnapshot(scratch.path(), tag, {}, 0); }), ErrorCode::kUsage) << tag;
  }
  EXPECT_EQ(CodeOf([&] { CreateFromSnapshot(scratch.path() / "none", scratch.path() / "new"); }),
            ErrorCode::kCheckpoint);
  EXPECT_EQ(CodeOf([&] { CreateFromSnapshot(scratch.path() / "none", scratch.path()); }),
            ErrorCode::kUsage);
}

}  // namespace
}  // namespace dp_bench::train
