// The observation window alone.
#include "control/obs_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dp_bench::control {
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
  // into the second of three rows
  ObsBatch obs = MakeObsBatch(keys, 3, n_obs_steps);
  history.CopyWindows(1, &obs);
  const std::span<const std::byte> bytes = obs.at("a").bytes();
  std::vector<int> window;
  for (const std::byte value : bytes.subspan(bytes.size() / 3, bytes.size() / 3)) {
    window.push_back(std::to_integer<int>(value));
  }
  EXPECT_THAT(bytes.first(bytes.size() / 3), testing::Each(std::byte{0}));
  EXPECT_THAT(bytes.last(bytes.size() / 3), testing::Each(std::byte{0}));
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
  ObsBatch obs = MakeObsBatch(keys, 1, 4);
  history.CopyWindows(0, &obs);
  EXPECT_THAT(obs.at("a").bytes(), testing::Each(std::byte{77}));
}

}  // namespace
}  // namespace dp_bench::control
