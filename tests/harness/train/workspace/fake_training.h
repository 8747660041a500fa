// A dataset and a policy so small that a whole training takes a fraction of a second, and the
// config to train one on the other.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/progress.h"
#include "dp_bench/config.h"
#include "dp_bench/dataset.h"
#include "dp_bench/policy.h"
#include "train/workspace.h"

namespace dp_bench::train {

/// Episodes in which the action is a linear function of agent_pos.
class FakeDataset : public Dataset {
 public:
  explicit FakeDataset(int n_episodes = 6, int n_steps = 14) {
    spec_.fps = 10.0;
    spec_.keys = {{.name = "action", .type = KeyType::kLowDim, .shape = {2}},
                  {.name = "agent_pos", .type = KeyType::kLowDim, .shape = {2}}};
    RandomStream random(5, StreamId::kEnvStart);
    for (int step = 0; step < n_episodes * n_steps; ++step) {
      const float x = random.Normal();
      const float y = random.Normal();
      agent_pos_.insert(agent_pos_.end(), {x, y});
      action_.insert(action_.end(), {2.0F * x - y, y + 1.0F});
    }
    for (int i = 1; i <= n_episodes; ++i) ends_.push_back(std::int64_t{i} * n_steps);
  }

  const DatasetSpec& spec() const override { return spec_; }
  std::span<const std::int64_t> episode_ends() const override { return ends_; }

  void DoRead(int key, std::int64_t begin, std::int64_t end,
              std::span<std::byte> out) const override {
    const std::vector<float>& values = key == 0 ? action_ : agent_pos_;
    std::memcpy(out.data(), values.data() + begin * 2,
                static_cast<std::size_t>(end - begin) * 2 * sizeof(float));
  }

 private:
  DatasetSpec spec_;
  std::vector<float> action_;
  std::vector<float> agent_pos_;
  std::vector<std::int64_t> ends_;
};

/// One linear layer from the observations to all T actions; its loss also depends on the noise.
class FakePolicy : public Policy {
 public:
  explicit FakePolicy(float noise_scale) : noise_scale_(noise_scale) {
    spec_.shape_meta.obs = {{.name = "agent_pos", .type = KeyType::kLowDim, .shape = {2}}};
    spec_.shape_meta.action = {.name = "action", .type = KeyType::kLowDim, .shape = {2}};
    spec_.horizons = {.horizon = 4, .n_obs_steps = 2, .n_action_steps = 2};
    linear_ = module_->register_module("linear", torch::nn::Linear(4, 8));
    module_->register_buffer("n_losses", torch::zeros({1}, torch::kInt64));
  }

  const PolicySpec& spec() const override { return spec_; }
  void SetNormalizer(const Normalizer& normalizer) override {
    normalizer_ = normalizer;
    normalizer_.To(linear_->weight.device());
  }
  torch::nn::Module& module() override { return *module_; }

  LossOutput ComputeLoss(const Batch& batch, NoiseSource& noise) override {
    if (on_loss) on_loss();
    if (module_->is_training()) module_->named_buffers()["n_losses"].add_(1);
    const torch::Tensor action = normalizer_.Normalize("action", batch.action);
    const torch::Tensor jitter =
        noise.Randn(StreamId::kTrainingNoise, action.sizes()).to(action.device());
    const torch::Tensor error = Predict(batch.obs) - action + noise_scale_ * jitter;
    const torch::Tensor loss = error.square().mean();
    return {.loss = loss, .parts = {{"loss_half", loss.detach() / 2}}};
  }

  torch::Tensor PredictAction(const TensorMap& obs, NoiseSource& noise) override {
    const torch::InferenceMode inference;
    torch::Tensor naction = Predict(obs);
    const torch::Tensor jitter = noise.Randn(StreamId::kPolicyNoise, naction.sizes());
    naction = naction + noise_scale_ * jitter.to(naction.device());
    return normalizer_.Unnormalize("action", naction).slice(1, 1, 3);
  }

  std::function<void()> on_loss;

 private:
  torch::Tensor Predict(const TensorMap& obs) {
    const torch::Tensor nobs = normalizer_.Normalize("agent_pos", obs.find("agent_pos")->second);
    return linear_->forward(nobs.flatten(1)).reshape({-1, 4, 2});
  }

  PolicySpec spec_;
  float noise_scale_;
  Normalizer normalizer_;
  std::shared_ptr<torch::nn::Module> module_ = std::make_shared<torch::nn::Module>();
  torch::nn::Linear linear_{nullptr};
};

inline std::unique_ptr<FakePolicy> MakeFakePolicy() { return std::make_unique<FakePolicy>(0.05F); }

/// 4 epochs of 10 batches (5 training episodes of 13 sequences) and 3 to validate, an evaluation
/// and a checkpoint every second epoch. `training` holds further keys of that section as JSON text.
inline Config FakeConfig(const std::string& training = "") {
  return Config::FromJson(R"({"training": {"num_epochs": 4, "rollout_every": 2,
      "checkpoint_every": 2, "lr_warmup_steps": 5, "sample_every": 2)" +
                          (training.empty() ? "" : ", " + training) + R"(},
    "optimizer": {"lr": 0.05}, "dataloader": {"batch_size": 7, "num_workers": 1},
    "val_dataloader": {"batch_size": 5, "num_workers": 0},
    "dataset": {"val_ratio": 0.17, "seed": 1},
    "checkpoint": {"topk": {"k": 2}}})");
}

/// The config with the changes of a JSON merge patch: null takes a key out.
inline Config Changed(const Config& config, const nlohmann::json& patch) {
  nlohmann::json changed = nlohmann::json::parse(config.ToJson());
  changed.merge_patch(patch);
  return Config::FromJson(changed.dump());
}

inline WorkspaceParts FakeParts(Config config, const Dataset& dataset,
                                std::filesystem::path output_dir) {
  return {.config = std::move(config),
          .dataset = dataset,
          .create_policy = [] { return MakeFakePolicy(); },
          .output_dir = std::move(output_dir),
          .progress = {.file = nullptr, .now = [] { return 0.0; }}};
}

/// Creates fake policies that report each loss with its number, counting training and validation
/// losses of all policies together.
inline std::function<std::unique_ptr<Policy>()> MakePoliciesThatCount(
    std::function<void(int n_losses)> on_loss) {
  return [on_loss = std::move(on_loss), n_losses = std::make_shared<int>(0)] {
    auto policy = MakeFakePolicy();
    policy->on_loss = [on_loss, n_losses] {
      ++*n_losses;
      if (on_loss) on_loss(*n_losses);
    };
    return policy;
  };
}

/// A score that depends on the weights, so that it differs if they do.
inline Scores FakeEvaluate(Policy& policy, int /*epoch*/) {
  double sum = 0.0;
  for (const torch::Tensor& p : policy.module().parameters()) sum += p.sum().item<double>();
  return {.metrics = {{"test/mean_score", sum}}};
}

/// The lines of a run's log.
inline std::vector<nlohmann::json> LogOf(const std::filesystem::path& run) {
  std::ifstream log(run / "logs.json.txt");
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(log, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

/// The state of a run's checkpoint `latest`.
inline TrainState LatestState(const std::filesystem::path& run) {
  const run::Checkpoint latest = run::Checkpoint::Open(run / "checkpoints" / run::kLatest);
  return TrainState::FromJson(latest.state(), "latest");
}

}  // namespace dp_bench::train
