// Datasets do not depend on workers or interruptions. Failures are listed and never kept by
// accident.
#include "data/collector.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <string>

#include "data/replay_writer.h"
#include "harness/data/toy_env.h"
#include "support/child_process.h"
#include "support/error_of.h"
#include "support/folder_content.h"
#include "support/scratch_folder.h"

namespace dp_bench::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class CollectorTest : public testing::Test {
 protected:
  CollectorTest() {
    config_.n_episodes = 12;
    config_.start_seed = 100;
    config_.n_workers = 2;
    config_.action_noise = 0.05;
    // 102 and 105 fail
    world_.fault_of = [](std::uint64_t seed) {
      return seed == 102 ? ToyFault::kNoWayOn : seed == 105 ? ToyFault::kLost : ToyFault::kNone;
    };
  }

  CollectRequest Request(const std::string& name) {
    return {.env_factory = [this] { return std::make_unique<ToyEnv>(world_); },
            .config = config_,
            .origin = CollectionOrigin(R"({"plugin": "toy"})", "1.0.0", config_),
            .output = scratch_.path() / name};
  }

  json AttributesOf(const std::string& name) {
    return ReadReplayAttributes(scratch_.path() / name);
  }

  const ScratchFolder scratch_;
  ToyWorld world_;
  CollectConfig config_;
};

TEST_F(CollectorTest, KeepsSuccessesInTheOrderOfSeedsAndListsFailures) {
  const CollectReport report = Collect(Request("a"));
  EXPECT_EQ(report.n_episodes, 12);
  EXPECT_FALSE(report.is_interrupted);
  ASSERT_EQ(report.failures.size(), 2U);
  EXPECT_EQ(report.failures[0].seed, 102U);
  EXPECT_EQ(report.failures[0].reason, "step 2: no way on");
  EXPECT_EQ(report.failures[1].seed, 105U);

  const json attributes = AttributesOf("a");
  EXPECT_THAT(attributes["episodes"]["seed"].get<std::vector<int>>(),
              ElementsAre(100, 101, 103, 104, 106, 107, 108, 109, 110, 111, 112, 113));
  EXPECT_EQ(attributes["failures"][1]["reason"], "no success within 40 steps");
  EXPECT_EQ(attributes["fps"], 20.0);
  EXPECT_EQ(attributes["complete"], true);
  EXPECT_EQ(attributes["origin"]["env"]["plugin"], "toy");
  EXPECT_EQ(attributes["n_steps"], report.n_steps);
}

TEST_F(CollectorTest, FailedEpisodesAreKeptOnRequestButBrokenOnesNever) {
  config_.keep_failures = true;
  const CollectReport report = Collect(Request("a"));
  ASSERT_EQ(report.failures.size(), 1U);
  EXPECT_EQ(report.failures[0].seed, 102U);
  const json episodes = AttributesOf("a")["episodes"];
  EXPECT_EQ(episodes["seed"][4], 105);
  EXPECT_EQ(episodes["success"][4], false);
  EXPECT_EQ(episodes["success"][5], true);
}

TEST_F(CollectorTest, EpisodesGoOnAfterTheirSuccessIfThatIsWanted) {
  const std::int64_t n_steps = Collect(Request("a")).n_steps;
  config_.n_steps_after_success = 5;
  EXPECT_EQ(Collect(Request("ended by the env")).n_steps, n_steps);
  world_.goes_on = true;
  const CollectReport report = Collect(Request("longer"));
  EXPECT_EQ(report.n_steps, n_steps + 5 * 12);
  EXPECT_EQ(report.failures.size(), 2U);
  config_.n_steps_after_success = 1000;
  EXPECT_EQ(Collect(Request("to the end")).n_steps, 40 * 12);
}

TEST_F(CollectorTest, TheNumberOfWorkersChangesNoByte) {
  Collect(Request("1"));
  for (const int n_workers : {2, 3, 8}) {
    config_.n_workers = n_workers;
    const std::string name = std::to_string(n_workers);
    Collect(Request(name));
    EXPECT_EQ(DifferingFiles(scratch_.path() / "1", scratch_.path() / name), "") << name;
  }
}

TEST_F(CollectorTest, NoMoreEpisodesArePlayedThanAreWanted) {
  world_.fault_of = [](std::uint64_t) { return ToyFault::kNone; };
  config_.n_workers = 8;
  Collect(Request("a"));
  EXPECT_EQ(world_.n_resets, 12);
}

TEST_F(CollectorTest, EpisodesOfTwoBuildsOfTheEnvAreNeverMixed) {
  CollectRequest request = Request("a");
  request.env_sha256 = "aa11";
  Collect(request);
  EXPECT_EQ(AttributesOf("a")["env_sha256"], "aa11");
  EXPECT_FALSE(FindCollection(request)->is_of_another_env);
  request.env_sha256 = "bb22";
  EXPECT_TRUE(FindCollection(request)->is_of_another_env);
  request.config.n_episodes = 13;
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { Collect(request); }),
              AllOf(HasSubstr("holds 12 episodes of another build of the env plugin"),
                    HasSubstr("aa11"), HasSubstr("bb22"), HasSubstr("another output folder")));
  request.env_sha256 = "aa11";
  EXPECT_EQ(Collect(request).n_episodes, 13);
}

TEST_F(CollectorTest, WhatIsInterruptedContinuesToTheSameBytes) {
  Collect(Request("whole"));
  std::atomic<bool> stop = false;
  world_.on_step = [&stop](std::uint64_t seed, int) { stop = stop || seed == 107; };
  CollectRequest request = Request("broken");
  request.stop = &stop;
  const CollectReport first = Collect(request);
  EXPECT_TRUE(first.is_interrupted);
  EXPECT_LT(first.n_episodes, 6);
  EXPECT_EQ(AttributesOf("broken")["complete"], false);

  world_.on_step = [](std::uint64_t, int) {};
  const CollectReport second = Collect(Request("broken"));
  EXPECT_EQ(second.n_before, first.n_episodes);
  EXPECT_EQ(second.n_episodes, 12);
  EXPECT_EQ(DifferingFiles(scratch_.path() / "whole", scratch_.path() / "broken"), "");
}

TEST_F(CollectorTest, WhatIsKilledContinuesToTheSameBytes) {
  Collect(Request("whole"));
  for (const std::uint64_t fatal_seed : {100, 113}) {
    const std::string name = fmt::format("killed{}", fatal_seed);
    const int status = StatusOf(StartChild([&] {
      world_.on_step = [fatal_seed](std::uint64_t seed, int) {
        if (seed == fatal_seed) kill(getpid(), SIGKILL);
      };
      CollectRequest request = Request(name);
      request.commit_seconds = 0.0;
      Collect(request);
    }));
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    const CollectReport report = Collect(Request(name));
    EXPECT_LE(report.n_before, static_cast<int>(fatal_seed) - 100);
    EXPECT_EQ(report.n_before > 0, fatal_seed == 113) << "two workers: the first ten are there";
    EXPECT_EQ(DifferingFiles(scratch_.path() / "whole", scratch_.path() / name), "") << name;
  }
}

TEST_F(CollectorTest, MoreEpisodesAreAppended) {
  config_.n_episodes = 20;
  Collect(Request("whole"));
  config_.n_episodes = 5;
  Collect(Request("grown"));
  config_.n_episodes = 20;
  const CollectReport report = Collect(Request("grown"));
  EXPECT_EQ(report.n_before, 5);
  EXPECT_EQ(DifferingFiles(scratch_.path() / "whole", scratch_.path() / "grown"), "");
}

TEST_F(CollectorTest, WhatIsCompleteIsLeftAlone) {
  Collect(Request("a"));
  world_.n_created = 0;
  const auto before = fs::last_write_time(scratch_.path() / "a" / ".zattrs");
  const CollectReport report = Collect(Request("a"));
  EXPECT_EQ(report.n_before, 12);
  EXPECT_EQ(report.failures.size(), 2U);
  EXPECT_EQ(world_.n_created, 0);
  EXPECT_EQ(fs::last_write_time(scratch_.path() / "a" / ".zattrs"), before);
}

TEST_F(CollectorTest, AnExpertThatFailsTooOftenIsGivenUp) {
  world_.fault_of = [](std::uint64_t seed) {
    return seed % 10 == 0 ? ToyFault::kNone : ToyFault::kNoWayOn;
  };
  for (const int n_workers : {1, 8}) {
    config_.n_workers = n_workers;
    const std::string name = std::to_string(n_workers);
    EXPECT_THAT(MessageOf(ErrorCode::kEnv, [&] { Collect(Request(name)); }),
                AllOf(HasSubstr("5 of 45 seeds solved"), HasSubstr("seed 144: step 2: no way on")));
  }
  EXPECT_EQ(DifferingFiles(scratch_.path() / "1", scratch_.path() / "8"), "");
}

TEST_F(CollectorTest, ProgressCountsEpisodesStepsAndFailures) {
  std::vector<CollectProgress> seen;
  const CollectReport report =
      Collect(Request("a"), [&seen](const CollectProgress& p) { seen.push_back(p); });
  ASSERT_EQ(seen.size(), 14U);
  EXPECT_EQ(seen.back().n_episodes, 12);
  EXPECT_EQ(seen.back().n_wanted, 12);
  EXPECT_EQ(seen.back().n_failed, 2);
  EXPECT_EQ(seen.back().n_steps, report.n_steps);
}

TEST_F(CollectorTest, ADamagedLogIsNamed) {
  Collect(Request("a"));
  for (const bool is_complete : {false, true}) {
    for (const json& episodes : {json{{"seed", "none"}}, json{1, 2}}) {
      json attributes = AttributesOf("a");
      attributes["complete"] = is_complete;
      attributes["episodes"] = episodes;
      core::WriteFileAtomically(scratch_.path() / "a" / ".zattrs", attributes.dump());
      EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { Collect(Request("a")); }),
                  HasSubstr(".zattrs is damaged"));
    }
  }
}

}  // namespace
}  // namespace dp_bench::data
