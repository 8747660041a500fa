// The value of a success rate rests on this: the outcome of an episode depends only on policy, env
// and seed, regardless of the number of workers, the order of the episodes, and whether envs are
// threads or processes. Real policies on real envs; every step of every episode is in the hash.
// DPB_ALL_ORDERS=1 runs 64 episodes with 6 worker counts and 3 shuffles; ctest runs a few of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "dp_bench/policy.h"
#include "dp_bench/random.h"
#include "planner/policy_planner.h"
#include "plugin/catalogue.h"
#include "plugin/isolated_env.h"
#include "policy/guarded_policy.h"
#include "rollout/env_runner.h"
#include "support/scratch_folder.h"
#include "train/fit_normalizer.h"

namespace dp_bench {
namespace {

constexpr int kMicroBatch = 16;

struct Scope {
  int n_episodes;
  std::vector<int> worker_counts;
  int n_shuffles;
};

Scope ChosenScope() {
  if (std::getenv("DPB_ALL_ORDERS") != nullptr) return {64, {1, 2, 3, 4, 8, 16}, 3};
  return {8, {3}, 1};
}

struct Subject {
  const char* policy;
  const char* policy_params;
  const char* env;
  const char* env_params;
  int max_steps;
};

class OneHash : public testing::TestWithParam<Subject> {
 protected:
  OneHash() {
    const std::unique_ptr<Env> env = MakeEnv(/*is_isolated=*/false);
    env_spec_ = env->spec();
    const PolicySpec spec = {.shape_meta = env_spec_.shape_meta, .horizons = {}};
    torch::manual_seed(3);
    policy_ = catalogue_.Create<Policy>(GetParam().policy,
                                        Config::FromJson(GetParam().policy_params, "policy"), spec);
    Normalizer::Fields fields;
    for (const KeySpec& key : spec.shape_meta.obs) {
      fields.insert(
          train::FitKey(key.name, WideStats(key.NumElements()), NormalizeMode::kGaussian));
    }
    fields.insert(train::FitKey("action", ActionStats(), NormalizeMode::kLimits));
    policy_->SetNormalizer(Normalizer(std::move(fields)));
    policy_->module().eval();
    policy_->WeightsChanged();
  }

  std::unique_ptr<Env> MakeEnv(bool is_isolated) {
    const Config params = Config::FromJson(GetParam().env_params, "env");
    if (!is_isolated) return catalogue_.Create<Env>(GetParam().env, params);
    const plugin::PluginInfo plugin = catalogue_.Find(PluginKind::kEnv, GetParam().env);
    return plugin::CreateIsolatedEnv({plugin.kind, plugin.name, plugin.file}, params, {});
  }

  std::vector<std::string> Hashes(bool is_isolated, int n_workers, std::span<const int> order) {
    control::EnvRunnerConfig config;
    config.n_train = 0;
    config.n_test = static_cast<int>(order.size());
    config.n_workers = n_workers;
    config.n_videos = 0;
    config.micro_batch = kMicroBatch;
    config.max_steps = GetParam().max_steps;
    rollout::EnvRunner runner(
        config, [&] { return MakeEnv(is_isolated); }, env_spec_.shape_meta, Horizons{},
        scratch_.path());
    planner::PolicyPlanner planner(*policy_, torch::kCPU, kMicroBatch);
    std::vector<std::string> hashes;
    for (const run::EpisodeRecord& record : runner.Run(planner, order).records) {
      EXPECT_FALSE(record.failure_reason.has_value()) << *record.failure_reason;
      hashes.push_back(record.trace_hash);
    }
    return hashes;
  }

 private:
  static KeyStats WideStats(std::int64_t size) {
    const auto n = static_cast<std::size_t>(size);
    return {.min = std::vector<double>(n, -100.0),
            .max = std::vector<double>(n, 100.0),
            .mean = std::vector<double>(n, 0.0),
            .std = std::vector<double>(n, 100.0),
            .count = 100};
  }

  KeyStats ActionStats() const {
    const std::size_t n = env_spec_.action_low.size();
    return {.min = {env_spec_.action_low.begin(), env_spec_.action_low.end()},
            .max = {env_spec_.action_high.begin(), env_spec_.action_high.end()},
            .mean = std::vector<double>(n, 0.0),
            .std = std::vector<double>(n, 1.0),
            .count = 100};
  }

  const ScratchFolder scratch_;
  plugin::PluginCatalogue catalogue_{{DPB_PLUGIN_DIR}};
  EnvSpec env_spec_;
  std::unique_ptr<Policy> policy_;
};

TEST_P(OneHash, ForAnyWorkersOrderAndIsolation) {
  const Scope scope = ChosenScope();
  std::vector<int> order(static_cast<std::size_t>(scope.n_episodes));
  std::iota(order.begin(), order.end(), 0);
  const std::vector<std::string> wanted = Hashes(/*is_isolated=*/false, 2, order);
  // identical episodes would hide a mix-up
  EXPECT_EQ(std::set<std::string>(wanted.begin(), wanted.end()).size(), wanted.size());
  int n_runs = 0;
  for (int shuffle = 0; shuffle <= scope.n_shuffles; ++shuffle) {
    RandomStream random(static_cast<std::uint64_t>(shuffle), StreamId::kEnvStart);
    for (std::size_t i = order.size() - 1; shuffle > 0 && i > 0; --i) {
      std::swap(order[i],
                order[static_cast<std::size_t>(random.Uniform() * static_cast<float>(i + 1))]);
    }
    for (const int n_workers : scope.worker_counts) {
      for (const bool is_isolated : {false, true}) {
        ASSERT_EQ(Hashes(is_isolated, n_workers, order), wanted)
            << n_workers << " workers, shuffle " << shuffle << (is_isolated ? ", processes" : "");
        ++n_runs;
      }
    }
  }
  RecordProperty("runs", n_runs);
  std::printf("%d runs of %d episodes, one hash each\n", n_runs, scope.n_episodes);
}

constexpr const char* kUnet = R"({"down_dims": [16, 32], "n_groups": 4, "noise_scheduler":
    {"type": "ddim", "num_inference_steps": 4}})";
constexpr const char* kTransformer = R"({"n_layer": 2, "n_emb": 48, "n_head": 4,
    "noise_scheduler": {"type": "ddim", "num_inference_steps": 4}})";
constexpr const char* kPushT = R"({"obs": ["agent_pos", "keypoint"]})";
constexpr const char* kKuavo = R"({"task": "pick_place", "obs": "state"})";

INSTANTIATE_TEST_SUITE_P(
    Pairs, OneHash,
    testing::Values(Subject{"unet_hybrid", kUnet, "pusht", kPushT, 100},
                    Subject{"transformer", kTransformer, "pusht", kPushT, 100},
                    Subject{"unet_hybrid", kUnet, "kuavo_dualarm", kKuavo, 32},
                    Subject{"transformer", kTransformer, "kuavo_dualarm", kKuavo, 32}),
    [](const auto& test) { return std::string(test.param.policy) + "_on_" + test.param.env; });

}  // namespace
}  // namespace dp_bench
