// Recorded steps are what the env showed and was given, and recording them changes nothing else.
#include <gtest/gtest.h>

#include <cstring>
#include <iterator>
#include <map>

#include "harness/rollout/fixture.h"
#include "rollout/episode_slot.h"
#include "run/safetensors.h"
#include "support/folder_content.h"
#include "support/record_hash.h"

namespace dp_bench::rollout {
namespace {

class RecordingTest : public RolloutTest {
 protected:
  std::filesystem::path Recording() const { return scratch_.path() / "recording"; }

  run::RunResult RunRecorded(int batch_size = 4) {
    std::filesystem::remove_all(Recording());
    FakePlanner planner(batch_size);
    EnvRunner runner = MakeRunner();
    runner.RecordSteps();
    return runner.Run(planner);
  }

  // The recorded bytes of a key, which has many steps per chunk.
  std::vector<std::byte> Recorded(std::uint64_t seed, const std::string& key) const {
    const auto file = run::ReadSafetensors(scratch_.path() / RecordedFile(seed));
    const std::span<const std::byte> bytes = file.tensors.at("bytes." + key).bytes();
    return {bytes.begin(), bytes.end()};
  }
};

TEST_F(RecordingTest, HasWhatTheEnvShowsBeforeEachStepAndTheActionsThatLeadToTheScore) {
  std::erase_if(meta_.obs, [](const KeySpec& key) { return key.name == "pixels"; });
  world_.end_of = [](std::uint64_t seed) { return seed == 100001 ? 13 : 1 << 30; };
  for (const run::EpisodeRecord& record : RunRecorded().records) {
    if (record.split != "test") continue;
    FakeEnv env(world_);
    plugin::ObsMemory obs(env.spec());
    env.Reset(record.seed);
    const std::vector<std::byte> actions = Recorded(record.seed, "action");
    ASSERT_EQ(actions.size(), sizeof(float) * 2 * static_cast<std::size_t>(record.n_steps));
    std::map<std::string, std::vector<std::byte>> shown;
    double score = 0.0;
    for (int step = 0; step < record.n_steps; ++step) {
      obs.Observe(env);
      for (std::size_t key = 0; key < obs.keys().size(); ++key) {
        std::ranges::copy(obs[key], std::back_inserter(shown[obs.keys()[key].name]));
      }
      std::array<float, 2> action{};
      std::memcpy(action.data(), actions.data() + sizeof(action) * static_cast<std::size_t>(step),
                  sizeof(action));
      score = std::max(score, env.Step(action).reward);
    }
    EXPECT_EQ(score, record.score) << record.seed;
    EXPECT_EQ(shown.size(), 3U) << "also the keys that the policy does not use";
    for (const auto& [key, bytes] : shown) {
      EXPECT_EQ(Recorded(record.seed, key), bytes) << key << " of seed " << record.seed;
    }
  }
}

TEST_F(RecordingTest, EveryStepIsObservedOnce) {
  config_.n_train = 0;
  config_.n_test = 1;
  for (const int n_obs_steps : {1, 2, 8}) {
    horizons_ = {.horizon = 16, .n_obs_steps = n_obs_steps, .n_action_steps = 8};
    world_.n_observed = 0;
    RunRecorded();
    EXPECT_EQ(world_.n_observed, 30) << n_obs_steps;
  }
}

TEST_F(RecordingTest, OutcomesAndFilesDoNotDependOnRecordingNorOnEnvsWorkersAndBatches) {
  config_.n_test = 12;
  world_.end_of = [](std::uint64_t seed) { return 5 + static_cast<int>(seed % 20); };
  config_.n_envs = 1;
  const std::string outcome = run::HashRecords(Run().records);
  EXPECT_FALSE(std::filesystem::exists(Recording()));
  EXPECT_EQ(run::HashRecords(RunRecorded().records), outcome);
  const FolderContent files = FilesBelow(Recording());
  EXPECT_EQ(files.size(), 12U) << "those of the test seeds";
  for (const int n_workers : {1, 4}) {
    for (const int n_envs : {3, 16}) {
      config_.n_workers = n_workers;
      config_.n_envs = n_envs;
      EXPECT_EQ(run::HashRecords(RunRecorded(/*batch_size=*/n_envs).records), outcome);
      EXPECT_EQ(DifferingFiles(files, FilesBelow(Recording())), "") << n_workers << " " << n_envs;
    }
  }
}

TEST_F(RecordingTest, EpisodesThatFailLeaveNoFile) {
  for (const Fault fault : {Fault::kThrowInReset, Fault::kThrowInObserve, Fault::kThrowInStep}) {
    world_.fault_of = [fault](std::uint64_t seed) { return seed == 100002 ? fault : Fault::kNone; };
    RunRecorded();
    EXPECT_EQ(NamesIn(Recording()).size(), 5U);
    EXPECT_FALSE(std::filesystem::exists(scratch_.path() / RecordedFile(100002)));
  }
}

TEST_F(RecordingTest, TheFileIsThereWhenTheRecordIsDelivered) {
  FakePlanner planner(4);
  EnvRunner runner = MakeRunner();
  runner.RecordSteps();
  std::atomic<int> n_found = 0;
  runner.Run(planner, {.on_episode = [&](const run::EpisodeRecord& record) {
               if (std::filesystem::exists(scratch_.path() / RecordedFile(record.seed))) ++n_found;
             }});
  EXPECT_EQ(n_found, 6);
}

}  // namespace
}  // namespace dp_bench::rollout
