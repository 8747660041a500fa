// Real envs in separate processes and in threads: one hash, regardless of the number of workers.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "dp_bench/random.h"
#include "plugin/catalogue.h"
#include "plugin/isolated_env.h"
#include "rollout/env_runner.h"
#include "support/record_hash.h"
#include "support/scratch_folder.h"

namespace dp_bench {
namespace {

constexpr int kBatchSize = 4;

/// Actions that depend on a hash of the observations and on the noise of the row: any differing bit
/// in an observation changes the episode.
class HashPlanner final : public control::ChunkPlanner {
 public:
  explicit HashPlanner(const EnvSpec& spec) : spec_(spec) {}

  int batch_size() const override { return kBatchSize; }

  void Plan(const control::ObsBatch& obs, std::span<const control::PlanRow> rows,
            std::span<float> actions) override {
    const std::size_t action_dim = spec_.action_low.size();
    const std::size_t chunk_size = actions.size() / kBatchSize;
    for (std::size_t row = 0; row < kBatchSize; ++row) {
      const control::PlanRow& name = rows[row < rows.size() ? row : 0];
      RandomStream random(HashOf(obs, row), StreamId::kPolicyNoise, name.env_step);
      for (std::size_t i = 0; i < chunk_size; ++i) {
        const float low = spec_.action_low[i % action_dim];
        const float high = spec_.action_high[i % action_dim];
        actions[row * chunk_size + i] = low + random.Uniform() * (high - low);
      }
    }
  }

 private:
  static std::uint64_t HashOf(const control::ObsBatch& obs, std::size_t row) {
    std::uint64_t hash = 0;
    for (const auto& [key, array] : obs) {
      const std::size_t size = array.byte_size() / kBatchSize;
      for (const std::byte byte : array.bytes().subspan(row * size, size)) {
        hash = hash * 1099511628211U + std::to_integer<std::uint64_t>(byte);
      }
    }
    return hash;
  }

  const EnvSpec& spec_;
};

struct Subject {
  const char* name;
  const char* params;
  int n_episodes;
  int max_steps;
  int n_videos;
};

class Isolation : public testing::TestWithParam<Subject> {
 protected:
  std::unique_ptr<Env> MakeEnv(bool is_isolated) {
    const Config params = Config::FromJson(GetParam().params, "params");
    if (!is_isolated) return catalogue_.Create<Env>(GetParam().name, params);
    const plugin::PluginInfo plugin = catalogue_.Find(PluginKind::kEnv, GetParam().name);
    return plugin::CreateIsolatedEnv({plugin.kind, plugin.name, plugin.file}, params, {});
  }

  std::string Hash(bool is_isolated, int n_workers) {
    control::EnvRunnerConfig config;
    config.n_train = 0;
    config.n_test = GetParam().n_episodes;
    config.n_workers = n_workers;
    config.n_videos = GetParam().n_videos;
    config.max_steps = GetParam().max_steps;
    rollout::EnvRunner runner(
        config, [&] { return MakeEnv(is_isolated); }, MakeEnv(false)->spec().shape_meta, Horizons{},
        scratch_.path());
    HashPlanner planner(runner.env_spec());
    const run::RunResult result = runner.Run(planner);
    for (const run::EpisodeRecord& record : result.records) {
      EXPECT_FALSE(record.failure_reason.has_value()) << *record.failure_reason;
      EXPECT_EQ(record.video_error, "");
    }
    return run::HashRecords(result.records);
  }

  const ScratchFolder scratch_;
  plugin::PluginCatalogue catalogue_{{DPB_PLUGIN_DIR}};
};

TEST_P(Isolation, OutcomesAreThoseOfThreadsForAnyNumberOfWorkers) {
  const std::string wanted = Hash(/*is_isolated=*/false, 2);
  for (const int n_workers : {1, 2, 8}) {
    EXPECT_EQ(Hash(/*is_isolated=*/true, n_workers), wanted) << n_workers << " workers";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Envs, Isolation,
    testing::Values(Subject{"pusht", R"({"obs": ["agent_pos", "keypoint"]})", 16, 300, 1},
                    Subject{"pusht", R"({"obs": ["agent_pos", "image"]})", 8, 100, 0},
                    Subject{"kuavo_dualarm", R"({"task": "pick_place", "obs": "state"})", 8, 60, 0},
                    Subject{"kuavo_dualarm",
                            R"({"obs": "rgb", "image_width": 128, "image_height": 96})", 4, 24, 1}),
    [](const auto& test) {
      return std::string(test.param.name) + "_" + std::to_string(test.index);
    });

}  // namespace
}  // namespace dp_bench
