#include "synthetic_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "dp_bench/error.h"
#include "support/read_all.h"

namespace dp_bench::synthetic {
namespace {

SyntheticDataset Make(const char* params) { return SyntheticDataset(Config::FromJson(params)); }

TEST(SyntheticDataset, TheExpertReachesTheGoal) {
  const SyntheticDataset dataset = Make(R"({"n_episodes": 20, "episode_length": 60})");
  const std::vector<float> position = ReadAll<float>(dataset, "agent_pos");
  const std::vector<float> goal = ReadAll<float>(dataset, "goal");
  for (const std::int64_t end : dataset.episode_ends()) {
    const std::size_t last = static_cast<std::size_t>(end - 1) * 2;
    constexpr float kGoalRadius = 0.1F;
    EXPECT_LT(std::hypot(position[last] - goal[last], position[last + 1] - goal[last + 1]),
              kGoalRadius);
  }
}

TEST(SyntheticDataset, ActionsPointToTheGoalWithinTheirBounds) {
  const SyntheticDataset dataset = Make("{}");
  const std::vector<float> action = ReadAll<float>(dataset, "action");
  const std::vector<float> position = ReadAll<float>(dataset, "agent_pos");
  const std::vector<float> goal = ReadAll<float>(dataset, "goal");
  for (std::size_t i = 0; i < action.size(); ++i) {
    EXPECT_LE(std::abs(action[i]), 1.0F);
    EXPECT_GE(action[i] * (goal[i] - position[i]), 0.0F);
  }
}

TEST(SyntheticDataset, AnEpisodeDependsOnSeedAndIndexAlone) {
  const std::vector<float> few = ReadAll<float>(Make(R"({"n_episodes": 2, "seed": 4})"), "action");
  std::vector<float> many = ReadAll<float>(Make(R"({"n_episodes": 9, "seed": 4})"), "action");
  many.resize(few.size());
  EXPECT_EQ(few, many);
  EXPECT_NE(few, ReadAll<float>(Make(R"({"n_episodes": 2, "seed": 5})"), "action"));
}

TEST(SyntheticDataset, DrawsMassAndGoalOnRequest) {
  const SyntheticDataset dataset = Make(R"({"n_episodes": 1, "image_size": 32})");
  const int key = dataset.KeyIndex("image");
  EXPECT_EQ(dataset.spec().keys[static_cast<std::size_t>(key)].shape, (Shape{3, 32, 32}));
  std::vector<std::uint8_t> frame(32 * 32 * 3);
  dataset.Read(key, 0, 1, std::as_writable_bytes(std::span(frame)));
  int n_blue = 0;
  int n_green = 0;
  for (std::size_t i = 0; i < frame.size(); i += 3) {
    n_blue += frame[i + 2] == 220 ? 1 : 0;
    n_green += frame[i + 1] == 180 ? 1 : 0;
  }
  EXPECT_GT(n_blue, 0);
  EXPECT_GT(n_green, 0);
  EXPECT_THROW(Make("{}").KeyIndex("image"), Error);
}

}  // namespace
}  // namespace dp_bench::synthetic
