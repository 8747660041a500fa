// Faults that only show while a trained policy acts are found, with the step where they begin.
#include <gtest/gtest.h>

#include <vector>

#include "harness/diagnose/faults/planted_fault.h"

namespace dp_bench::diagnose {
namespace {

constexpr const char* kUnseen = "rollout.unseen_states";

Plant TrainedIn(ReachEnvParams env) {
  return [env](Subject& subject) {
    subject.is_trained = true;
    subject.env = env;
  };
}

void OffsetTheData(Subject& subject) {
  subject.is_trained = true;
  for (float& value : subject.dataset.agent_pos) value += 2.0F;
}

const std::vector<Case> kRolloutFaults = {
    {"StartsElsewhere", kUnseen, TrainedIn({.start_offset = {1.6, 0.0}})},
    {"OffsetSensor", kUnseen, TrainedIn({.observed_offset = {1.5, -1.5}})},
    {"Wind", kUnseen, TrainedIn({.wind = {0.5, 0.0}})},
    {"OffsetData", kUnseen, OffsetTheData},
};

class RolloutFault : public testing::TestWithParam<Case> {};

TEST_P(RolloutFault, IsNamed) { ExpectNamed(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Planted, RolloutFault, testing::ValuesIn(kRolloutFaults), NameOf);

Finding UnseenStates(const Plant& plant) {
  Subject subject;
  plant(subject);
  return *Find(DiagnoseSubject(subject), kUnseen);
}

TEST(RolloutFaults, OfTheStartAreNotCalledDrift) {
  EXPECT_EQ(UnseenStates(TrainedIn({.observed_offset = {1.5, -1.5}})).config_key, "env.params");
  EXPECT_EQ(UnseenStates(TrainedIn({.wind = {0.5, 0.0}})).config_key, "collect.action_noise");
}

TEST(RolloutFaults, AreOfATrainedPolicyAlone) {
  Subject untrained;
  EXPECT_EQ(Find(DiagnoseSubject(untrained), kUnseen), nullptr);
}

}  // namespace
}  // namespace dp_bench::diagnose
