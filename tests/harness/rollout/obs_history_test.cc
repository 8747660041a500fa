// The observation window by itself.
#include "rollout/obs_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dp_bench {
namespace {

using testing::ElementsAre;

std::vector<int> WindowAfter(int n_obs_steps, int n_pushed) {
  const std::vector<KeySpec> keys = {{.name = "a", .shape = {2}, .dtype = DType::kUInt8}};
  ObsHistory history(keys, n_obs_steps);
  for (int i = 0; i < n_pushed; ++i) {
    history.Next(0)[0] = static_cast<std::byte>(10 * i);
    history.Next(0)[1] = static_cast<std::byte>(10 * i + 1);
    i == 0 ? history.PushAsFirst() : history.Push();
  }
  std::vector<std::byte> out(static_cast<std::size_t>(n_obs_steps) * 2);
  history.CopyWindow(0, out);
  std::vector<int> window;
  for (const std::byte value : out) window.push_back(std::to_integer<int>(value));
  return window;
}

TEST(ObsHistory, FirstObservationFillsTheWindow) {
  EXPECT_THAT(WindowAfter(3, 1), ElementsAre(0, 1, 0, 1, 0, 1));
}

TEST(ObsHistory, WindowRunsFromOldToNew) {
  EXPECT_THAT(WindowAfter(3, 2), ElementsAre(0, 1, 0, 1, 10, 11));
  EXPECT_THAT(WindowAfter(3, 6), ElementsAre(30, 31, 40, 41, 50, 51));
}

TEST(ObsHistory, WindowOfOneIsTheLatest) { EXPECT_THAT(WindowAfter(1, 4), ElementsAre(30, 31)); }

TEST(ObsHistory, NextEpisodeForgetsTheLast) {
  const std::vector<KeySpec> keys = {{.name = "a", .shape = {1}, .dtype = DType::kUInt8}};
  ObsHistory history(keys, 4);
  for (int i = 1; i <= 6; ++i) {
    history.Next(0)[0] = static_cast<std::byte>(i);
    history.Push();
  }
  history.Next(0)[0] = std::byte{77};
  history.PushAsFirst();
  std::vector<std::byte> out(4);
  history.CopyWindow(0, out);
  EXPECT_THAT(out, testing::Each(std::byte{77}));
}

}  // namespace
}  // namespace dp_bench
