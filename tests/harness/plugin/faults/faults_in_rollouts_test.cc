// The EnvRunner with envs that break their processes. Every episode is accounted for, those without
// a fault equal a run without any fault bit for bit, and no process is left running.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "dp_bench/random.h"
#include "harness/plugin/faulty_env.h"
#include "harness/plugin/processes.h"
#include "harness/rollout/fake_env.h"
#include "rollout/env_runner.h"
#include "support/record_hash.h"
#include "support/scratch_folder.h"

namespace dp_bench::plugin {
namespace {

constexpr int kEpisodes = 200;

// a crash that a sanitizer describes must not look like a hang [s]
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kStepTimeout = 4.0;
#else
constexpr double kStepTimeout = 1.0;
#endif

const std::vector<std::string> kKinds = {"segv", "abort", "exit", "hang", "kill", "throw"};

/// `n_faults` faults of all kinds on the seeds from 0, at random steps, in any call.
std::string FaultsOf(int n_faults, const std::filesystem::path& marker_dir = {}) {
  nlohmann::json faults = nlohmann::json::array();
  for (int i = 0; i < n_faults; ++i) {
    const auto seed = static_cast<std::uint64_t>(i);
    RandomStream random(seed, StreamId::kEnvNoise);
    const auto draw = [&](int n) { return static_cast<int>(random.UniformDouble() * n); };
    const bool in_reset = draw(8) == 0;
    faults.push_back({{"seed", seed},
                      {"kind", kKinds[static_cast<std::size_t>(draw(6))]},
                      {"in", in_reset ? "reset" : "step"},
                      {"step", in_reset ? 0 : draw(30)}});
  }
  return nlohmann::json({{"faults", faults}, {"marker_dir", marker_dir.string()}}).dump();
}

class FaultsInRollouts : public testing::Test {
 protected:
  run::RunResult Run(const rollout::EnvFactory& env_factory, int n_workers = 8) {
    control::EnvRunnerConfig config;
    config.n_train = 0;
    config.n_test = kEpisodes;
    config.test_start_seed = 0;
    config.n_workers = n_workers;
    config.n_videos = 0;
    const ShapeMeta meta = MakeDirect()->spec().shape_meta;
    rollout::EnvRunner runner(config, env_factory, meta, Horizons{}, scratch_.path());
    rollout::FakePlanner planner(8);
    return runner.Run(planner);
  }

  static rollout::EnvFactory Isolated(const std::string& params) {
    EnvLimits config = ShortLimits();
    config.step_timeout = kStepTimeout;
    config.reset_timeout = 5.0 * kStepTimeout;
    return [params, config] { return MakeIsolated(params, config); };
  }

  static std::string HashOf(const run::EpisodeRecord& record) {
    return run::HashRecords(std::span(&record, 1));
  }

  const ScratchFolder scratch_;
};

TEST_F(FaultsInRollouts, OutcomesAreThoseOfThreadsForAnyNumberOfWorkers) {
  const std::string wanted = run::HashRecords(Run([] { return MakeDirect(); }).records);
  for (const int n_workers : {1, 2, 8}) {
    EXPECT_EQ(run::HashRecords(Run(Isolated("{}"), n_workers).records), wanted) << n_workers;
  }
}

TEST_F(FaultsInRollouts, EveryEpisodeIsAccountedForAndTheUntouchedAreBitEqual) {
  constexpr int kFaults = kEpisodes / 2;
  const run::RunResult clean = Run([] { return MakeDirect(); });
  const run::RunResult broken = Run(Isolated(FaultsOf(kFaults)));
  ASSERT_EQ(broken.records.size(), std::size_t{kEpisodes});
  for (std::size_t i = 0; i < kEpisodes; ++i) {
    const run::EpisodeRecord& record = broken.records[i];
    const bool is_touched = i < kFaults;
    EXPECT_EQ(record.failure_reason.has_value(), is_touched) << i;
    if (!is_touched) {
      EXPECT_EQ(HashOf(record), HashOf(clean.records[i])) << i;
    }
  }
  EXPECT_TRUE(Eventually([] { return WorkersOf(getpid()).empty(); }));
}

TEST_F(FaultsInRollouts, TwoHundredFaultsFailTwoHundredEpisodesEachWithItsReason) {
  const run::RunResult result = Run(Isolated(FaultsOf(kEpisodes)));
  ASSERT_EQ(result.records.size(), std::size_t{kEpisodes});
  std::map<std::string, int> reasons;
  for (const run::EpisodeRecord& record : result.records) {
    ASSERT_TRUE(record.failure_reason.has_value()) << record.seed;
    const std::size_t begin = record.failure_reason->find(": ") + 2;
    ++reasons[record.failure_reason->substr(begin, record.failure_reason->find('\n') - begin)];
  }
  // a hang in Reset has another limit than one in Step
  EXPECT_EQ(reasons.size(), kKinds.size() + 1) << testing::PrintToString(reasons);
  EXPECT_TRUE(Eventually([] { return WorkersOf(getpid()).empty(); }));
}

TEST_F(FaultsInRollouts, FaultsThatDoNotRepeatChangeNoOutcome) {
  const ScratchFolder markers;
  const run::RunResult clean = Run([] { return MakeDirect(); });
  const std::string params = FaultsOf(kEpisodes, markers.path() / "");
  const run::RunResult repaired = Run(Isolated(params));
  int n_failed = 0;
  for (std::size_t i = 0; i < kEpisodes; ++i) {
    // the thrown error is the env's own answer, and is not repeated
    const bool is_thrown =
        repaired.records[i].failure_reason.value_or("").find("got lost") != std::string::npos;
    if (is_thrown) {
      ++n_failed;
    } else {
      EXPECT_EQ(HashOf(repaired.records[i]), HashOf(clean.records[i])) << i;
    }
  }
  EXPECT_LT(n_failed, kEpisodes / 3);
}

}  // namespace
}  // namespace dp_bench::plugin
