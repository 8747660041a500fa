// See planted_fault.h.
#include "harness/diagnose/faults/planted_fault.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "config/json_source.h"
#include "config/loader.h"
#include "core/temporary_folder.h"
#include "planner/policy_weights.h"
#include "support/plugin_policy.h"
#include "train/workspace.h"

namespace dp_bench::diagnose {
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
  "logging": {"tensorboard": false, "ranges_every": 10},
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
  config::JsonSource source = config::ParseJsonSource(text, "test");
  for (const std::string& change : overrides) config::ApplyOverride(change, &source);
  return Config::FromJson(source.value.dump());
}

std::unique_ptr<Policy> MakeFrom(const Subject& subject,
                                 const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides = subject.overrides;
  overrides.insert(overrides.end(), more.begin(), more.end());
  const Config config = Override(kConfig, overrides);
  std::unique_ptr<Policy> policy =
      CreatePluginDiffusion(config.Sub("policy").Sub("params"), SpecOf(subject.dataset, config));
  return subject.wrap ? subject.wrap(std::move(policy)) : std::move(policy);
}

/// The run folder of the healthy training.
const fs::path& TrainingFolder() {
  static const core::TemporaryFolder folder;
  return folder.path();
}

/// A checkpoint of a healthy training, created once for all tests.
const run::Checkpoint& TrainedCheckpoint() {
  static const run::Checkpoint checkpoint = [] {
    torch::manual_seed(1);
    const Subject healthy;
    train::Workspace workspace({.config = Override(kConfig, {}),
                                .dataset = healthy.dataset,
                                .create_policy = [&] { return MakeFrom(healthy); },
                                .output_dir = TrainingFolder(),
                                .progress = {.file = nullptr, .now = [] { return 0.0; }}});
    return run::Checkpoint::Open(*workspace.Run({}).latest);
  }();
  return checkpoint;
}

/// The trained checkpoint with the subject's faults.
run::Checkpoint Damaged(const Subject& subject, const fs::path& folder) {
  run::CheckpointContents contents = {.config = TrainedCheckpoint().config(),
                                      .state = TrainedCheckpoint().state()};
  for (const std::string_view file : {run::kModelFile, run::kEmaFile, run::kNormalizerFile}) {
    contents.tensors[std::string(file)] = TrainedCheckpoint().ReadTensors(file);
  }
  if (subject.edit_ema) subject.edit_ema(contents.tensors[std::string(run::kEmaFile)]);
  if (subject.edit_normalizer) {
    auto& arrays = contents.tensors[std::string(run::kNormalizerFile)];
    auto fields = planner::NormalizerFromState(planner::ToTensors(arrays)).fields();
    subject.edit_normalizer(fields);
    arrays = planner::ToArrays(planner::NormalizerState(Normalizer(std::move(fields))));
  }
  run::WriteCheckpointFiles(folder, contents);
  return run::Checkpoint::Open(folder);
}

// The networks are small: two threads would mostly wait for each other, especially next to other
// tests.
class OneThread : public testing::Environment {
 public:
  void SetUp() override { at::set_num_threads(1); }
};

const testing::Environment* const kOneThread = testing::AddGlobalTestEnvironment(new OneThread);

}  // namespace

void Nothing(Subject& /*subject*/) {}

Plant Overrides(std::vector<std::string> overrides) {
  return [overrides = std::move(overrides)](Subject& subject) { subject.overrides = overrides; };
}

Plant Trained(std::vector<std::string> overrides) {
  return [overrides = std::move(overrides)](Subject& subject) {
    subject.overrides = overrides;
    subject.is_trained = true;
  };
}

Plant Data(std::function<void(ReachDataset&)> change) {
  return [change = std::move(change)](Subject& subject) { change(subject.dataset); };
}

Plant EmaWeights(std::function<void(const std::string& name, std::span<float> values)> edit) {
  return [edit = std::move(edit)](Subject& subject) {
    subject.is_trained = true;
    subject.edit_ema = [edit](ArrayMap& arrays) {
      for (auto& [name, array] : arrays) {
        if (array.dtype() == DType::kFloat32) edit(name, array.as<float>());
      }
    };
  };
}

Plant Log(std::function<double(int step)> loss, std::function<double(int step)> val_loss) {
  return [loss = std::move(loss), val_loss = std::move(val_loss)](Subject& subject) {
    for (int step = 0; step < 400; ++step) {
      nlohmann::json line = {{"global_step", step}, {"train_loss", loss(step)}};
      if (step % 40 == 39) line["val_loss"] = val_loss(step);
      subject.log.push_back(line.dump());
    }
  };
}

double HealthyLoss(int step) { return 0.05 + std::exp(-step / 40.0); }

Diagnosis FullDiagnosis(Subject& subject) {
  const core::TemporaryFolder folder;
  std::optional<run::Checkpoint> checkpoint;
  if (subject.is_trained) checkpoint = Damaged(subject, folder.path());
  std::optional<fs::path> log;
  if (!subject.log.empty()) {
    log = folder.path() / "logs.json.txt";
    std::ofstream file(*log);
    for (const std::string& line : subject.log) file << line << "\n";
  }
  if (subject.has_own_log) log = TrainingFolder() / "logs.json.txt";
  const Config config = Override(kConfig, subject.overrides);
  return Diagnose({.config = config,
                   .spec = SpecOf(subject.dataset, config),
                   .dataset = subject.dataset,
                   .make_policy = [&](const auto& more) { return MakeFrom(subject, more); },
                   .make_env = [&] { return std::make_unique<ReachEnv>(subject.env); },
                   .checkpoint = checkpoint ? &*checkpoint : nullptr,
                   .log = log});
}

Findings DiagnoseSubject(Subject& subject) { return FullDiagnosis(subject).findings; }

void ExpectNamed(const Case& fault) {
  Subject subject(fault.has_images);
  fault.plant(subject);
  const Findings findings = DiagnoseSubject(subject);
  const bool is_named = std::ranges::any_of(findings, [&](const Finding& finding) {
    return finding.id == fault.id && finding.is_problem();
  });
  EXPECT_TRUE(is_named) << ToText(findings);
}

void ExpectConfirmed(const Case& fault) {
  Subject subject(fault.has_images);
  fault.plant(subject);
  const Findings findings = DiagnoseSubject(subject);
  const Finding* found = Find(findings, fault.id);
  ASSERT_NE(found, nullptr) << ToText(findings);
  EXPECT_EQ(found->verdict, Judgement::kConfirmed) << ToText(findings);
}

void ExpectNoProblem(const Case& healthy) {
  Subject subject(healthy.has_images);
  healthy.plant(subject);
  const Findings findings = DiagnoseSubject(subject);
  EXPECT_FALSE(HasProblems(findings)) << ToText(findings);
}

}  // namespace dp_bench::diagnose
