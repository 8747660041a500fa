// Each fault that is planted in a healthy training is found and named; healthy ones raise none.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/policy_weights.h"
#include "config/json_source.h"
#include "config/overrides.h"
#include "core/temporary_folder.h"
#include "diagnose/diagnosis.h"
#include "dp_bench/stage_trace.h"
#include "harness/diagnose/reach_task.h"
#include "train/fit_normalizer.h"
#include "train/workspace.h"
#include "unet_hybrid_policy.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = R"({
  "horizon": 8, "n_obs_steps": 2, "n_action_steps": 4,
  "policy": {"plugin": "unet_hybrid", "params": {
    "down_dims": [32, 64], "diffusion_step_embed_dim": 32, "n_groups": 4, "kernel_size": 3,
    "obs_encoder": {"resnet_width": 8, "resnet_stages": 2, "spatial_softmax_num_keypoints": 8},
    "noise_scheduler": {"type": "ddim", "num_train_timesteps": 100, "num_inference_steps": 10}}},
  "dataset": {"val_ratio": 0.1},
  "dataloader": {"batch_size": 64, "num_workers": 0},
  "val_dataloader": {"batch_size": 64, "num_workers": 0},
  "optimizer": {"lr": 2e-3},
  "logging": {"tensorboard": false},
  "training": {"num_epochs": 16, "lr_warmup_steps": 50, "rollout_every": 0, "sample_every": 0}})";

PolicySpec SpecOf(const Dataset& dataset, const Config& config) {
  PolicySpec spec;
  for (const KeySpec& key : dataset.spec().keys) {
    if (key.name == "action") {
      spec.shape_meta.action = key;
    } else {
      spec.shape_meta.obs.push_back(key);
    }
  }
  spec.horizons = Horizons::FromConfig(config);
  return spec;
}

Config Override(const std::string& text, const std::vector<std::string>& overrides) {
  JsonSource source = ParseJsonSource(text, "test");
  for (const std::string& change : overrides) ApplyOverride(change, &source);
  return Config::FromJson(source.value.dump());
}

/// A training, with what can be wrong about it.
struct Subject {
  explicit Subject(bool has_images = false) : dataset(has_images), env(has_images) {}

  ReachDataset dataset;
  ReachEnv env;
  std::vector<std::string> overrides;  // of the config
  bool is_trained = false;
  std::function<void(ArrayMap&)> edit_ema;  // of the trained checkpoint
  std::function<void(Normalizer&)> edit_normalizer;
  std::vector<std::string> log;  // lines; empty: there is none
  std::function<std::unique_ptr<Policy>(std::unique_ptr<Policy>)> wrap;
};

std::unique_ptr<Policy> MakeFrom(const Subject& subject,
                                 const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides = subject.overrides;
  overrides.insert(overrides.end(), more.begin(), more.end());
  const Config config = Override(kConfig, overrides);
  std::unique_ptr<Policy> policy =
      unet_hybrid::MakePolicy(config.Sub("policy").Sub("params"), SpecOf(subject.dataset, config));
  return subject.wrap ? subject.wrap(std::move(policy)) : std::move(policy);
}

/// A checkpoint of a healthy training, made once for all tests.
const Checkpoint& TrainedCheckpoint() {
  static const TemporaryFolder folder;
  static const Checkpoint checkpoint = [] {
    torch::manual_seed(1);
    const Subject healthy;
    Workspace workspace({.config = Override(kConfig, {}),
                         .dataset = healthy.dataset,
                         .create_policy = [&] { return MakeFrom(healthy); },
                         .output_dir = folder.path(),
                         .progress = {.file = nullptr, .now = [] { return 0.0; }}});
    return Checkpoint::Open(*workspace.Run({}).latest);
  }();
  return checkpoint;
}

/// The trained checkpoint with the subject's faults.
Checkpoint Damaged(const Subject& subject, const fs::path& folder) {
  CheckpointContents contents = {.config = TrainedCheckpoint().config(),
                                 .state = TrainedCheckpoint().state()};
  for (const std::string_view file : {kModelFile, kEmaFile, kNormalizerFile}) {
    contents.tensors[std::string(file)] = TrainedCheckpoint().ReadTensors(file);
  }
  if (subject.edit_ema) subject.edit_ema(contents.tensors[std::string(kEmaFile)]);
  if (subject.edit_normalizer) {
    auto& arrays = contents.tensors[std::string(kNormalizerFile)];
    Normalizer normalizer = Normalizer::FromStateDict(ToTensors(arrays));
    subject.edit_normalizer(normalizer);
    arrays = ToArrays(normalizer.StateDict());
  }
  WriteCheckpointFiles(folder, contents);
  return Checkpoint::Open(folder);
}

Findings DiagnoseSubject(Subject& subject) {
  const TemporaryFolder folder;
  std::optional<Checkpoint> checkpoint;
  if (subject.is_trained) checkpoint = Damaged(subject, folder.path());
  std::optional<fs::path> log;
  if (!subject.log.empty()) {
    log = folder.path() / "logs.json.txt";
    std::ofstream file(*log);
    for (const std::string& line : subject.log) file << line << "\n";
  }
  const Config config = Override(kConfig, subject.overrides);
  return Diagnose({.config = config,
                   .spec = SpecOf(subject.dataset, config),
                   .dataset = subject.dataset,
                   .make_policy = [&](const auto& more) { return MakeFrom(subject, more); },
                   .env = &subject.env,
                   .checkpoint = checkpoint ? &*checkpoint : nullptr,
                   .log = log});
}

std::set<std::string> ProblemsOf(const Findings& findings) {
  std::set<std::string> problems;
  for (const Finding& finding : findings) {
    if (finding.is_problem()) problems.insert(finding.id);
  }
  return problems;
}

using Plant = std::function<void(Subject& subject)>;

struct Case {
  std::string name;
  std::string id;  // of the finding; empty: none
  Plant plant;
  bool has_images = false;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::string NameOf(const testing::TestParamInfo<Case>& info) { return info.param.name; }

// ---- what is planted

void Nothing(Subject& /*subject*/) {}

Plant Overrides(std::vector<std::string> overrides) {
  return [overrides](Subject& subject) { subject.overrides = overrides; };
}

Plant Trained(std::vector<std::string> overrides) {
  return [overrides](Subject& subject) {
    subject.overrides = overrides;
    subject.is_trained = true;
  };
}

Plant Data(std::function<void(ReachDataset&)> change) {
  return [change](Subject& subject) { change(subject.dataset); };
}

Plant EmaWeights(std::function<void(const std::string& name, std::span<float> values)> edit) {
  return [edit](Subject& subject) {
    subject.is_trained = true;
    subject.edit_ema = [edit](ArrayMap& arrays) {
      for (auto& [name, array] : arrays) {
        if (array.dtype() == DType::kFloat32) edit(name, array.as<float>());
      }
    };
  };
}

/// 400 steps of a loss.
Plant Log(std::function<double(int step)> loss) {
  return [loss](Subject& subject) {
    for (int step = 0; step < 400; ++step) {
      subject.log.push_back(
          nlohmann::json{{"global_step", step}, {"train_loss", loss(step)}}.dump());
    }
  };
}

double HealthyLoss(int step) { return 0.05 + std::exp(-step / 40.0); }

/// A policy whose diffusion process is not what it should be.
class FaultyProcess : public Policy {
 public:
  FaultyProcess(std::unique_ptr<Policy> inner, bool has_wrong_timesteps)
      : inner_(std::move(inner)), has_wrong_timesteps_(has_wrong_timesteps) {}

  const PolicySpec& spec() const override { return inner_->spec(); }
  torch::nn::Module& module() override { return inner_->module(); }
  void SetNormalizer(const Normalizer& normalizer) override {
    normalizer_ = normalizer;
    inner_->SetNormalizer(normalizer);
  }
  torch::Tensor PredictAction(const TensorMap& obs, NoiseSource& noise) override {
    return inner_->PredictAction(obs, noise);
  }
  void WeightsChanged() override { inner_->WeightsChanged(); }

  LossOutput ComputeLoss(const Batch& batch, NoiseSource& noise) override {
    if (!IsTracingStages()) return inner_->ComputeLoss(batch, noise);
    const NoiseScheduler scheduler((NoiseSchedulerConfig()));
    const torch::Tensor x_0 = normalizer_.Normalize("action", batch.action);
    const torch::Tensor epsilon = noise.Randn(StreamId::kTrainingNoise, x_0.sizes());
    const torch::Tensor t =
        noise.RandInt(StreamId::kDiffusionTimestep, has_wrong_timesteps_ ? 50 : 100);
    torch::Tensor x_t = scheduler.AddNoise(x_0, epsilon, t);
    if (!has_wrong_timesteps_) x_t = x_t + 0.5 * x_0;
    TraceStage("normalized action", x_0);
    TraceStage("noise", epsilon);
    TraceStage("timesteps", t);
    TraceStage("noisy action", x_t);
    TraceStage("predicted noise", epsilon);
    return {.loss = epsilon.mean(), .parts = {}};
  }

 private:
  std::unique_ptr<Policy> inner_;
  Normalizer normalizer_;
  bool has_wrong_timesteps_;
};

/// A policy whose loss depends on no parameter.
class Detached : public Policy {
 public:
  explicit Detached(std::unique_ptr<Policy> inner) : inner_(std::move(inner)) {}

  const PolicySpec& spec() const override { return inner_->spec(); }
  torch::nn::Module& module() override { return inner_->module(); }
  void SetNormalizer(const Normalizer& normalizer) override { inner_->SetNormalizer(normalizer); }
  torch::Tensor PredictAction(const TensorMap& obs, NoiseSource& noise) override {
    return inner_->PredictAction(obs, noise);
  }
  LossOutput ComputeLoss(const Batch& batch, NoiseSource& noise) override {
    const torch::Tensor loss = inner_->ComputeLoss(batch, noise).loss.detach();
    torch::Tensor nothing = torch::zeros({});
    for (const torch::Tensor& parameter : module().parameters()) {
      nothing = nothing + 0.0 * parameter.sum();
    }
    return {.loss = loss + nothing, .parts = {}};
  }

 private:
  std::unique_ptr<Policy> inner_;
};

void Detach(Subject& subject) {
  subject.wrap = [](std::unique_ptr<Policy> inner) {
    return std::make_unique<Detached>(std::move(inner));
  };
}

Plant Process(bool has_wrong_timesteps) {
  return [has_wrong_timesteps](Subject& subject) {
    subject.wrap = [has_wrong_timesteps](std::unique_ptr<Policy> inner) {
      return std::make_unique<FaultyProcess>(std::move(inner), has_wrong_timesteps);
    };
  };
}

// Moves the actions `by` steps later in time, over the edges of episodes.
void ShiftActions(ReachDataset& data, int by) {
  const std::vector<float> before = data.action;
  const auto n = std::ssize(before);
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    const std::ptrdiff_t from = std::clamp<std::ptrdiff_t>(i - 2 * by, 0, n - 1);
    data.action[static_cast<std::size_t>(i)] = before[static_cast<std::size_t>(from)];
  }
}

void ShuffleActions(ReachDataset& data) {
  RandomStream random(3, StreamId::kShuffle);
  const auto n = static_cast<std::uint32_t>(data.n_steps());
  for (std::uint32_t i = n - 1; i > 0; --i) {
    const std::uint32_t j = random.UniformInt(i + 1);
    for (std::uint32_t d = 0; d < 2; ++d) std::swap(data.action[2 * i + d], data.action[2 * j + d]);
  }
}

// Every step three times in a row.
void StandStill(ReachDataset& data) {
  for (std::vector<float>* values : {&data.action, &data.agent_pos, &data.goal}) {
    for (std::size_t i = 0; i < values->size(); ++i) {
      (*values)[i] = (*values)[i / 6 * 6 + i % 2];
    }
  }
}

void RepeatEpisodes(ReachDataset& data) {
  const std::int64_t n = data.n_steps();
  const std::size_t n_episodes = data.ends.size();
  for (std::vector<float>* values : {&data.action, &data.agent_pos, &data.goal}) {
    const std::vector<float> once = *values;
    values->insert(values->end(), once.begin(), once.end());
  }
  for (std::size_t i = 0; i < n_episodes; ++i) data.ends.push_back(n + data.ends[i]);
}

void CutShort(ReachDataset& data) {
  data.ends.clear();
  const std::int64_t n = std::ssize(data.action) / 2;
  for (std::int64_t end = 5; end <= n; end += 5) data.ends.push_back(end);
}

void Scale(float factor, std::vector<float>* values) {
  for (float& value : *values) value *= factor;
}

void SwapRedAndBlue(ReachDataset& data) {
  for (std::size_t i = 0; i < data.image.size(); i += 3)
    std::swap(data.image[i], data.image[i + 2]);
}

void ShrinkObservations(ReachDataset& data) {
  Scale(0.01F, &data.agent_pos);
  Scale(0.01F, &data.goal);
}

void FitToPixels(Subject& subject) {
  subject.is_trained = true;
  subject.edit_normalizer = [](Normalizer& normalizer) {
    const KeyStats pixels = {
        .min = {0, 0}, .max = {512, 512}, .mean = {256, 256}, .std = {9, 9}, .count = 9};
    normalizer.Fit("agent_pos", pixels, NormalizeMode::kLimits);
  };
}

void LeaveActionsAsTheyAre(Subject& subject) {
  subject.overrides = {"normalizer.action=identity"};
  Scale(100.0F, &subject.dataset.action);
}

void DrawAnew(const std::string& name, std::span<float> values) {
  RandomStream random(name.size(), StreamId::kInit);
  for (float& value : values) value = 0.05F * random.Normal();
}

void CutOffTheCondition(const std::string& name, std::span<float> values) {
  if (name.find("cond_encoder") != std::string::npos) std::ranges::fill(values, 1e-4F);
}

void Multiply(float factor, std::span<float> values) {
  for (float& value : values) value *= factor;
}

double NanAfter300(int step) {
  return step > 300 ? std::numeric_limits<double>::quiet_NaN() : HealthyLoss(step);
}

const std::string kScheduler = "policy.params.noise_scheduler.";

const std::vector<Case> kDataFaults = {
    {"NanInTheData", "data.not_finite",
     Data([](auto& data) { data.agent_pos[77] = std::numeric_limits<float>::quiet_NaN(); })},
    {"ActionsThatNeverChange", "data.constant_action",
     Data([](auto& data) { std::ranges::fill(data.action, 0.5F); })},
    {"IdleSteps", "data.idle_steps", Data(StandStill)},
    {"EpisodesTwice", "data.duplicate_episodes", Data(RepeatEpisodes)},
    {"ValidationInTraining", "data.leakage", Data(RepeatEpisodes)},
    {"EpisodesShorterThanTheHorizon", "data.short_episodes", Data(CutShort)},
    {"AGlitch", "data.outliers", Data([](auto& data) { data.agent_pos[100] = 400.0F; })},
    {"ShuffledActions", "data.shuffled_actions", Data(ShuffleActions)},
    {"ActionsTooLate", "data.misaligned_actions", Data([](auto& data) { ShiftActions(data, 3); })},
    {"ActionsTooEarly", "data.misaligned_actions",
     Data([](auto& data) { ShiftActions(data, -5); })},
    {"StillCamera", "data.still_camera",
     Data([](auto& data) { std::ranges::fill(data.image, std::uint8_t{9}); }), true},
    {"ActionsInOtherUnits", "data.actions_outside_limits",
     Data([](auto& data) { Scale(57.3F, &data.action); })},
    {"AnotherRate", "data.rate", Data([](auto& data) { data.set_fps(30.0); })},
    {"SwappedChannels", "data.swapped_channels", Data(SwapRedAndBlue), true},
    {"ObservationsInOtherUnits", "env.observations_outside_data", Data(ShrinkObservations)},
};

const std::vector<Case> kTrainingFaults = {
    {"ClippedButNotLimited", "normalizer.clip_conflict", Overrides({"normalizer.action=gaussian"})},
    {"NotNormalized", "A.input_range", LeaveActionsAsTheyAre},
    {"TimestepsOfTheLowerHalf", "B.timesteps", Process(/*has_wrong_timesteps=*/true)},
    {"WrongForwardProcess", "C.forward_process", Process(/*has_wrong_timesteps=*/false)},
    {"TooLittleNoise", "F.terminal_noise",
     Overrides({kScheduler + "beta_schedule=linear", kScheduler + "beta_end=0.02"})},
    {"WarmUpWithoutEnd", "settings.warmup", Overrides({"training.lr_warmup_steps=5000"})},
    {"EmaDecayOfOne", "settings.ema", Overrides({"ema.max_value=1.0", "ema.min_value=1.0"})},
    {"BatchLargerThanTheData", "settings.batch_size", Overrides({"dataloader.batch_size=4096"})},
    {"BatchNormInSmallBatches", "settings.batch_norm",
     Overrides({"policy.params.obs_encoder.use_group_norm=false", "dataloader.batch_size=8"}),
     true},
    {"FrozenAtRandom", "settings.frozen_at_random",
     Overrides({R"(optimizer.param_groups=[{"pattern": "cond_encoder", "frozen": true}])"})},
    {"LearningRateTimesAHundred", "learning.lr_too_high", Overrides({"optimizer.lr=0.2"})},
    {"LearningRateTooLow", "learning.lr_too_low", Overrides({"optimizer.lr=1e-6"})},
    {"LossThatDependsOnNothing", "learning.cannot_overfit", Detach},
    {"NoGradients", "learning.no_gradient", Detach},
    {"NanInTheLog", "E.loss_not_finite", Log(NanAfter300)},
    {"LossThatStays", "E.loss_does_not_fall", Log([](int) { return 1.0; })},
    {"LossThatRises", "E.loss_diverged",
     Log([](int step) { return HealthyLoss(step) + (step > 300 ? 0.3 : 0.0); })},
};

const std::vector<Case> kCheckpointFaults = {
    {"StatisticsOfOtherData", "normalizer.wrong_statistics", FitToPixels},
    {"WeightsAllZero", "weights.broken",
     EmaWeights([](auto&, auto values) { Multiply(0.0F, values); })},
    {"WeightsExploded", "weights.broken",
     EmaWeights([](auto&, auto values) { Multiply(1e6F, values); })},
    {"EmaThatLags", "weights.ema_lags",
     EmaWeights([](auto&, auto values) { Multiply(0.8F, values); })},
    {"NeverTrained", "weights.untrained", EmaWeights(DrawAnew)},
    {"WrongPredictionType", "weights.prediction_type",
     Trained({kScheduler + "prediction_type=sample"})},
    {"ClipSampleOff", "sampling.out_of_range",
     Trained({kScheduler + "clip_sample=false", kScheduler + "timestep_spacing=trailing"})},
    {"OneDenoisingStep", "sampling.too_few_steps", Trained({kScheduler + "num_inference_steps=1"})},
    {"ObservationsWithoutEffect", "sampling.observations_ignored", EmaWeights(CutOffTheCondition)},
};

// The networks are small: two threads would mostly wait for each other, beside other tests above
// all.
class OneThread : public testing::Environment {
 public:
  void SetUp() override { at::set_num_threads(1); }
};

const testing::Environment* const kOneThread = testing::AddGlobalTestEnvironment(new OneThread);

class PlantedFault : public testing::TestWithParam<Case> {};

TEST_P(PlantedFault, IsNamed) {
  Subject subject(GetParam().has_images);
  GetParam().plant(subject);
  const Findings findings = DiagnoseSubject(subject);
  EXPECT_TRUE(ProblemsOf(findings).contains(GetParam().id)) << ToText(findings);
}

INSTANTIATE_TEST_SUITE_P(Data, PlantedFault, testing::ValuesIn(kDataFaults), NameOf);
INSTANTIATE_TEST_SUITE_P(Training, PlantedFault, testing::ValuesIn(kTrainingFaults), NameOf);
INSTANTIATE_TEST_SUITE_P(Checkpoint, PlantedFault, testing::ValuesIn(kCheckpointFaults), NameOf);

TEST(PlantedFaults, AreOfMoreThanTwentyFiveKinds) {
  std::set<std::string> kinds;
  for (const auto* faults : {&kDataFaults, &kTrainingFaults, &kCheckpointFaults}) {
    for (const Case& fault : *faults) kinds.insert(fault.id);
  }
  EXPECT_GE(kinds.size(), 25U);
}

class HealthyTraining : public testing::TestWithParam<Case> {};

TEST_P(HealthyTraining, RaisesNoProblem) {
  Subject subject(GetParam().has_images);
  GetParam().plant(subject);
  const Findings findings = DiagnoseSubject(subject);
  EXPECT_FALSE(HasProblems(findings)) << ToText(findings);
}

INSTANTIATE_TEST_SUITE_P(
    Trainings, HealthyTraining,
    testing::Values(
        Case{"AConfig", "", Nothing}, Case{"Pictures", "", Nothing, true},
        Case{"GaussianWithRoom", "",
             Overrides({"normalizer.action=gaussian", kScheduler + "clip_sample_range=5"})},
        Case{"PredictsTheSample", "", Overrides({kScheduler + "prediction_type=sample"})},
        Case{"ACheckpoint", "", Trained({})}, Case{"ALog", "", Log(HealthyLoss)}),
    NameOf);

}  // namespace
}  // namespace dp_bench
