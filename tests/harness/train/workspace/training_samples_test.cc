// Actions sampled while training: their numbers in the log and their image in TensorBoard.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "dp_bench/stage_trace.h"
#include "fake_training.h"
#include "support/scratch_folder.h"

namespace dp_bench::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Notes as many denoising steps as it is told.
class DenoisingFake : public FakePolicy {
 public:
  explicit DenoisingFake(int n_steps) : FakePolicy(0.05F), n_steps_(n_steps) {}

  torch::Tensor PredictAction(const TensorMap& obs, NoiseSource& noise) override {
    const torch::Tensor actions = FakePolicy::PredictAction(obs, noise);
    const torch::Tensor sample = torch::full({actions.size(0), 4, 2}, 0.5);
    TraceStage("noise", sample);
    for (int i = n_steps_; i-- > 0;) {
      TraceStage("timestep", torch::tensor(std::int64_t{i}));
      TraceStage("denoised action", sample);
      TraceStage("clipped values", torch::tensor(std::int64_t{2}));
      TraceStage("sample", sample);
    }
    return actions;
  }

 private:
  int n_steps_;
};

class TrainingSamplesTest : public testing::Test {
 protected:
  /// Trains in a folder of this name; returns the lines of its log.
  std::vector<nlohmann::json> Train(const std::string& name, const std::string& training = "") {
    const Config config =
        Changed(FakeConfig(), {{"training", nlohmann::json::parse("{" + training + "}")}});
    WorkspaceParts parts = FakeParts(config, dataset_, scratch_.path() / name);
    parts.create_policy = [] { return std::make_unique<DenoisingFake>(8); };
    Workspace(std::move(parts)).Run({});
    return LogOf(scratch_.path() / name);
  }

  /// The values of a key, in the lines that have it.
  static std::vector<double> ValuesOf(const std::vector<nlohmann::json>& lines, const char* key) {
    std::vector<double> values;
    for (const nlohmann::json& line : lines) {
      if (line.contains(key)) values.push_back(line.at(key).get<double>());
    }
    return values;
  }

  std::string Content(const std::string& run, const std::string& file) const {
    return core::ReadTextFile(scratch_.path() / run / file, 1U << 24);
  }

  const FakeDataset dataset_;
  ScratchFolder scratch_;
};

TEST_F(TrainingSamplesTest, HaveTheStepsOfAnEvaluation) {
  const auto lines = Train("plain", R"("sample_every": 1)");
  EXPECT_THAT(ValuesOf(lines, "train_sample_steps"), ElementsAre(8, 8, 8, 8));
}

TEST_F(TrainingSamplesTest, DoNotChangeTheTraining) {
  Train("never", R"("sample_every": 0)");
  Train("every", R"("sample_every": 1)");
  for (const char* file : {"ema.safetensors", "model.safetensors"}) {
    const std::string path = std::string("checkpoints/latest/") + file;
    EXPECT_EQ(Content("every", path), Content("never", path)) << file;
  }
}

TEST_F(TrainingSamplesTest, HaveTheirRangeAndTheirClippedValuesInTheLog) {
  const auto lines = Train("plain", R"("sample_every": 3)");
  EXPECT_THAT(ValuesOf(lines, "train_sample_max"), ElementsAre(0.5, 0.5));
  EXPECT_THAT(ValuesOf(lines, "train_sample_std"), ElementsAre(0.0, 0.0));
  EXPECT_THAT(ValuesOf(lines, "train_sample_clipped"), ElementsAre(16, 16));
  EXPECT_THAT(ValuesOf(lines, "train_sample_clipped_share"),
              ElementsAre(16.0 / (8 * 7 * 8), 16.0 / (8 * 7 * 8)))
      << "2 in each of 8 steps of 7 rows with 4 times 2 values";
}

}  // namespace
}  // namespace dp_bench::train
