// Builds runners over the fake env.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "harness/rollout/fake_env.h"
#include "rollout/env_runner.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::rollout {

class RolloutTest : public testing::Test {
 protected:
  RolloutTest() {
    config_.n_train = 2;
    config_.n_test = 6;
    config_.n_workers = 2;
    config_.n_videos = 0;
    meta_ = FakeEnv(world_).spec().shape_meta;
    world_.n_created = 0;
  }

  EnvRunner MakeRunner() {
    return MakeRunner([this] { return std::make_unique<FakeEnv>(world_); });
  }
  EnvRunner MakeRunner(EnvFactory make_env) {
    return EnvRunner(config_, std::move(make_env), meta_, horizons_, scratch_.path());
  }

  run::RunResult Run(FakePlanner::Hook hook = {}, int batch_size = 4) {
    FakePlanner planner(batch_size, std::move(hook));
    EnvRunner runner = MakeRunner();
    return runner.Run(planner);
  }

  run::RunResult RunIn(EnvFactory make_env) {
    FakePlanner planner(4);
    return MakeRunner(std::move(make_env)).Run(planner);
  }

  const ScratchFolder scratch_;
  FakeWorld world_;
  control::EnvRunnerConfig config_;
  ShapeMeta meta_;
  Horizons horizons_;  // T = 16, To = 2, Ta = 8
};

}  // namespace dp_bench::rollout
