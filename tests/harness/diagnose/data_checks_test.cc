// Data that dp_bench recorded are aligned, whatever they look like.
#include "diagnose/data_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace dp_bench::diagnose {
namespace {

// The observed position is that of two steps before the action.
Demonstrations LateActions() {
  Demonstrations data = {.signals = {{.name = "action", .dim = 1}, {.name = "position", .dim = 1}},
                         .episode_ends = {60}};
  for (int step = 0; step < 60; ++step) {
    data.signals[0].values.push_back(std::sin(0.3F * static_cast<float>(step - 2)));
    data.signals[1].values.push_back(std::sin(0.3F * static_cast<float>(step)));
  }
  return data;
}

TEST(ActionLag, ActionsThatFollowTheirObservationAreAFaultUnlessDpBenchRecordedThem) {
  Demonstrations data = LateActions();
  const auto check = [&] { return *Find(CheckData(data, Horizons()), "data.misaligned_actions"); };
  EXPECT_TRUE(check().is_problem());
  data.is_recorded_here = true;
  const Finding finding = check();
  EXPECT_FALSE(finding.is_problem());
  EXPECT_THAT(finding.evidence, testing::HasSubstr("recorded each action with the observation"));
}

}  // namespace
}  // namespace dp_bench::diagnose
