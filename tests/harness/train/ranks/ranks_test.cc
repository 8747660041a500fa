// A training on three ranks equals one process with the whole batches, up to rounding. The last
// batch of an epoch has two rows, so the third rank has none of it.
#include "support/ranks.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "dp_bench/error.h"
#include "harness/train/workspace/fake_training.h"
#include "support/distant_device/distant_device.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"
#include "train/process_stages.h"

namespace dp_bench::train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// A scratch folder that all ranks see. Rank 0 removes it when all have finished.
class SharedFolder {
 public:
  SharedFolder() {
    if (TestRanks().is_root()) scratch_.emplace();
    path_ = TestRanks().FromRoot(scratch_ ? scratch_->path().string() : std::string());
  }
  ~SharedFolder() { TestRanks().Barrier(); }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  fs::path path() const { return path_; }

 private:
  std::optional<ScratchFolder> scratch_;
  fs::path path_;
};

/// A hook for faults on this rank; it gets the number of its losses so far, starting at 1.
using OnLoss = std::function<void(int n_losses, FakePolicy& policy)>;

struct Flags {
  std::atomic<bool> stop = false;
  std::atomic<bool> snapshot = false;
};

train::TrainReport Train(const fs::path& output, const Config& config, core::Communicator* ranks,
                         const OnLoss& on_loss = {}, Flags* flags = nullptr) {
  const FakeDataset dataset;
  train::WorkspaceParts parts = FakeParts(config, dataset, output);
  parts.ranks = ranks;
  int n_losses = 0;
  parts.create_policy = [&] {
    auto policy = MakeFakePolicy();
    FakePolicy* made = policy.get();
    policy->on_loss = [&, made] {
      if (on_loss) on_loss(++n_losses, *made);
    };
    return policy;
  };
  if (flags != nullptr) {
    parts.stop = &flags->stop;
    parts.snapshot = &flags->snapshot;
  }
  return train::Workspace(std::move(parts)).Run(FakeEvaluate);
}

train::TrainReport TrainTogether(const fs::path& output, const std::string& training,
                                 const OnLoss& on_loss = {}, Flags* flags = nullptr) {
  return Train(output, FakeConfig(training), &TestRanks(), on_loss, flags);
}

/// Compares every value of every line to 1e-5.
void ExpectSameLog(const fs::path& run, const fs::path& expected) {
  const std::vector<nlohmann::json> lines = LogOf(run);
  const std::vector<nlohmann::json> wanted = LogOf(expected);
  ASSERT_EQ(lines.size(), wanted.size());
  ASSERT_EQ(lines.size(), 40U);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    ASSERT_EQ(lines[i].size(), wanted[i].size()) << lines[i] << wanted[i];
    for (const auto& [key, value] : wanted[i].items()) {
      const double x = value.get<double>();
      EXPECT_NEAR(lines[i].at(key).get<double>(), x, 1e-5 * std::max(1.0, std::abs(x)))
          << "line " << i << ", " << key;
    }
  }
}

void ExpectSameWeights(const fs::path& run, const fs::path& expected) {
  for (const std::string_view file : {run::kModelFile, run::kEmaFile}) {
    if (!fs::exists(expected / "checkpoints/latest" / file)) continue;  // without EMA
    const ArrayMap values = run::Checkpoint::Open(run / "checkpoints/latest").ReadTensors(file);
    for (const auto& [name, wanted] :
         run::Checkpoint::Open(expected / "checkpoints/latest").ReadTensors(file)) {
      if (wanted.dtype() != DType::kFloat32) continue;  // a counter of the fake policy
      const auto found = values.find(name)->second.as<float>();
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_NEAR(found[i], wanted.as<float>()[i], 1e-5) << file << " " << name;
      }
    }
  }
}

/// The same training on rank 0 only.
void TrainAlone(const fs::path& output, const std::string& training) {
  if (TestRanks().is_root()) Train(output, FakeConfig(training), nullptr);
  TestRanks().Barrier();
}

void ExpectSameTrainingTogetherAndAlone(const std::string& training) {
  const SharedFolder folder;
  TrainAlone(folder.path() / "alone", training);
  const train::TrainReport report = TrainTogether(folder.path() / "together", training);
  EXPECT_EQ(report.end, train::TrainEnd::kFinished);
  EXPECT_EQ(report.global_step, 40);
  TestRanks().Barrier();
  ExpectSameLog(folder.path() / "together", folder.path() / "alone");
  ExpectSameWeights(folder.path() / "together", folder.path() / "alone");
}

/// Rows of a loss whose x_0 counts up; a rank without rows notes nothing.
ProcessStages StagesOfRows(std::int64_t begin, std::int64_t end) {
  ProcessStages stages;
  if (begin < end) {
    stages.Note("normalized action", torch::arange(begin, end).to(torch::kFloat32));
  }
  return stages;
}

TEST(Ranges, CoverTheRowsOfAllRanks) {
  core::SingleProcess alone;
  const auto expected = ProcessRanges(StagesOfRows(0, 5), DataParallel(alone));
  const std::int64_t rank = TestRanks().rank();
  const auto own = rank < 2 ? StagesOfRows(3 * rank, rank == 0 ? 3 : 5) : StagesOfRows(0, 0);
  const auto found = ProcessRanges(own, DataParallel(TestRanks()));
  ASSERT_EQ(found.size(), 4U);
  for (const auto& [name, value] : expected) EXPECT_NEAR(found.at(name), value, 1e-12) << name;
}

class TrainingOnRanks : public testing::TestWithParam<const char*> {};

TEST_P(TrainingOnRanks, HasTheCurvesAndWeightsOfOneProcess) {
  ExpectSameTrainingTogetherAndAlone(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Configs, TrainingOnRanks,
                         testing::Values(R"("max_grad_norm": 0)",
                                         R"("gradient_accumulate_every": 4)",
                                         R"("max_grad_norm": 0.5, "use_ema": false,
                                            "max_val_steps": 1)"));

TEST(TrainingOnRanks, OnAnotherDeviceHasTheCurvesAndWeightsOfOneProcess) {
  ExpectSameTrainingTogetherAndAlone(
      fmt::format(R"("max_grad_norm": 0.5, "device": "{}")", DistantDevice().str()));
}

TEST(TrainingOnRanks, RankZeroAloneWritesFiles) {
  const SharedFolder folder;
  const fs::path own = folder.path() / std::to_string(TestRanks().rank());
  TrainTogether(own, "");
  TestRanks().Barrier();
  EXPECT_TRUE(fs::exists(folder.path() / "0/checkpoints/latest"));
  EXPECT_TRUE(fs::is_empty(folder.path() / "1"));
  EXPECT_TRUE(fs::is_empty(folder.path() / "2"));
}

TEST(TrainingOnRanks, ASignalToOneRankStopsAllInTheWindowAndResumes) {
  constexpr const char* kWindows = R"("gradient_accumulate_every": 4)";
  const SharedFolder folder;
  TrainTogether(folder.path() / "whole", kWindows);
  Flags flags;
  const auto interrupt = [&](int n_losses, FakePolicy&) {
    if (TestRanks().rank() == 1 && n_losses == 6) flags.stop = true;
  };
  const fs::path broken = folder.path() / "broken";
  const train::TrainReport report = TrainTogether(broken, kWindows, interrupt, &flags);
  EXPECT_EQ(report.end, train::TrainEnd::kInterrupted);
  EXPECT_EQ(report.global_step, 6);
  TestRanks().Barrier();
  TrainTogether(broken, std::string(kWindows) + R"(, "resume": true)");
  TestRanks().Barrier();
  ExpectSameLog(broken, folder.path() / "whole");
  ExpectSameWeights(broken, folder.path() / "whole");
}

TEST(TrainingOnRanks, CanBeContinuedByOneProcess) {
  const SharedFolder folder;
  TrainTogether(folder.path() / "whole", "");
  Flags flags;
  const auto interrupt = [&](int n_losses, FakePolicy&) { flags.stop = n_losses == 16; };
  const fs::path broken = folder.path() / "broken";
  TrainTogether(broken, "", interrupt, &flags);
  TestRanks().Barrier();
  TrainAlone(broken, R"("resume": true)");
  ExpectSameLog(broken, folder.path() / "whole");
  ExpectSameWeights(broken, folder.path() / "whole");
}

TEST(TrainingOnRanks, ASnapshotInTheWindowChangesNothing) {
  constexpr const char* kWindows = R"("gradient_accumulate_every": 4)";
  const SharedFolder folder;
  TrainTogether(folder.path() / "whole", kWindows);
  Flags flags;
  const auto ask = [&](int n_losses, FakePolicy&) {
    if (TestRanks().rank() == 1 && n_losses == 6) flags.snapshot = true;
  };
  TrainTogether(folder.path() / "watched", kWindows, ask, &flags);
  TestRanks().Barrier();
  EXPECT_TRUE(fs::exists(folder.path() / "watched/snapshots/step=0000006"));
  ExpectSameLog(folder.path() / "watched", folder.path() / "whole");
}

TEST(TrainingOnRanks, ABatchWithFewerRowsThanRanksIsRefused) {
  const SharedFolder folder;
  const Config config = Config::FromJson(R"({"dataloader": {"batch_size": 2}})");
  const std::string message =
      MessageOf(ErrorCode::kConfig, [&] { Train(folder.path(), config, &TestRanks()); });
  EXPECT_THAT(message, HasSubstr("batch_size"));
  EXPECT_THAT(message, HasSubstr("3 ranks"));
}

TEST(TrainingOnRanks, ANanOnOneRankEndsAllWithTheSequencesOfTheWholeBatch) {
  const SharedFolder folder;
  const auto poison = [](int n_losses, FakePolicy& policy) {
    if (TestRanks().rank() != 1 || n_losses != 3) return;
    const torch::NoGradGuard no_grad;
    policy.module().parameters()[0].fill_(std::numeric_limits<float>::quiet_NaN());
  };
  const std::string message =
      MessageOf(ErrorCode::kNumeric, [&] { TrainTogether(folder.path(), "", poison); });
  EXPECT_THAT(message, HasSubstr("global_step 2"));
  EXPECT_EQ(message, TestRanks().FromRoot(message));
  const std::string list = message.substr(message.find('['), message.find(']') - message.find('['));
  EXPECT_EQ(std::ranges::count(list, ','), 6) << message;  // seven sequences
}

TEST(TrainingOnRanks, AnOverflowOnOneRankLeavesTheUpdateOutOnAll) {
  const SharedFolder folder;
  const auto overflow = [](int n_losses, FakePolicy& policy) {
    if (TestRanks().rank() != 1 || n_losses != 4) return;
    policy.module().parameters()[0].register_hook(
        [n_calls = std::make_shared<int>(0)](const torch::Tensor& gradient) {
          return (*n_calls)++ == 0 ? gradient + std::numeric_limits<float>::infinity() : gradient;
        });
  };
  // each save throws unless all ranks hold the same weights
  const train::TrainReport report =
      TrainTogether(folder.path(), R"("mixed_precision": "fp16")", overflow);
  EXPECT_EQ(report.end, train::TrainEnd::kFinished);
  TestRanks().Barrier();
  const std::vector<nlohmann::json> lines = LogOf(folder.path());
  ASSERT_EQ(lines.size(), 40U);
  for (std::size_t step = 0; step < lines.size(); ++step) {
    EXPECT_EQ(lines[step].contains("grad_norm"), step != 3) << step;
    EXPECT_EQ(lines[step]["train_grad_scale"], step <= 3 ? 65536.0 : 32768.0) << step;
  }
}

TEST(TrainingOnRanks, RanksThatBeginWithOtherWeightsAreRefused) {
  const SharedFolder folder;
  const FakeDataset dataset;
  train::WorkspaceParts parts = FakeParts(FakeConfig(), dataset, folder.path());
  parts.ranks = &TestRanks();
  parts.create_policy = [] {
    auto policy = MakeFakePolicy();
    const torch::NoGradGuard no_grad;
    if (TestRanks().rank() == 2) policy->module().parameters()[0].add_(1e-3);
    return policy;
  };
  train::Workspace workspace(std::move(parts));
  EXPECT_THAT(MessageOf(ErrorCode::kCheckpoint, [&] { workspace.Run(FakeEvaluate); }),
              HasSubstr("rank 2 differs from rank 0 in: EMA weights, weights"));
}

}  // namespace
}  // namespace dp_bench::train
