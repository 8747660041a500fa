// The player on its thread: it gets commands and returns images and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "harness/view/stage_env.h"
#include "support/error_of.h"
#include "view/player.h"

namespace dp_bench::view {
namespace {

class PlayerThreadTest : public testing::Test {
 protected:
  PlayerThreadOptions Options(const PlayerOptions& player) {
    return {.player = player,
            .width = 4,
            .height = 2,
            .make_stage = [this]() -> PlayedStage {
              stage_thread_ = std::this_thread::get_id();
              auto env = std::make_unique<StageEnv>(world_);
              auto source = std::make_unique<ExpertSource>(*env);
              return {.env = std::move(env), .source = std::move(source)};
            },
            .on_image =
                [this] {
                  const std::lock_guard lock(mutex_);
                  is_woken_ = true;
                  woken_.notify_one();
                }};
  }

  // The next image that fits, taken as soon as the thread announces one.
  template <class Wanted>
  PlayerStatus WaitFor(PlayerThread* thread, const Wanted& is_wanted) {
    PlayerStatus status;
    while (true) {
      if (thread->TakeImage(&image_, &status) && is_wanted(status)) return status;
      std::unique_lock lock(mutex_);
      woken_.wait(lock, [this] { return is_woken_; });
      is_woken_ = false;
    }
  }

  rollout::FakeWorld world_;
  RgbImage image_{4, 2};
  std::thread::id stage_thread_;

 private:
  std::mutex mutex_;
  std::condition_variable woken_;
  bool is_woken_ = false;
};

TEST_F(PlayerThreadTest, PlaysToTheEndAndShowsTheLastState) {
  world_.max_steps = 20;
  PlayerThread thread(Options({.speed = kMaxSpeed, .n_steps = 12}));
  const PlayerStatus status =
      WaitFor(&thread, [](const PlayerStatus& now) { return now.is_finished; });
  EXPECT_EQ(status.step, 12);
  EXPECT_EQ(image_.pixels[0], 8 * 12);
  EXPECT_NE(stage_thread_, std::this_thread::get_id());
}

TEST_F(PlayerThreadTest, CommandsAreFollowedInOrder) {
  PlayerThread thread(Options({.speed = kMinSpeed}));
  thread.Post(Command::kTogglePause);
  thread.Post(Command::kNextEpisode);
  thread.Post(Command::kNextEpisode);
  thread.Post(Command::kNextCamera);
  const PlayerStatus status =
      WaitFor(&thread, [](const PlayerStatus& now) { return now.camera == "head"; });
  EXPECT_EQ(status.seed, 2U);
  EXPECT_TRUE(status.is_paused);
  EXPECT_EQ(image_.pixels[0], 100);
}

TEST_F(PlayerThreadTest, WhatEndsThePlayerIsThrownToTheWindow) {
  PlayerThreadOptions options = Options({});
  options.make_stage = []() -> PlayedStage { throw Error(ErrorCode::kPlugin, "no such env"); };
  PlayerThread thread(std::move(options));
  EXPECT_EQ(CodeOf([&] { WaitFor(&thread, [](const PlayerStatus&) { return false; }); }),
            ErrorCode::kPlugin);
}

TEST_F(PlayerThreadTest, StopsWhenNobodyLooksAnyMore) {
  PlayerThread thread(Options({.speed = kMaxSpeed}));  // destroyed while it plays
}

}  // namespace
}  // namespace dp_bench::view
