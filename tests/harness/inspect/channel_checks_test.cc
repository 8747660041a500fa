// Episodes with channels in another order are named, and other differences between episodes are
// not.
#include "inspect/channel_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "dp_bench/random.h"
#include "harness/inspect/reach_task.h"

namespace dp_bench::inspect {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kDim = 4;  // two arms of two joints
constexpr int kSteps = 20;

using Pose = std::array<double, kDim>;

constexpr Pose kHome = {0.4, -0.9, -0.4, 1.3};

// Recordings that begin at `home`; the arm on side `arm` (0 or 1) reaches somewhere.
void AddEpisode(const Pose& home, std::size_t arm, RandomStream& random, Demonstrations* data) {
  const std::array<double, 2> reach = {random.UniformDouble(), random.UniformDouble()};
  std::vector<float>& values = data->signals[0].values;
  for (int t = 0; t < kSteps; ++t) {
    Pose pose = home;
    for (std::size_t i = 0; i < 2; ++i) pose[2 * arm + i] += reach[i] * t / kSteps;
    for (const double value : pose) {
      values.push_back(static_cast<float>(value + 0.01 * static_cast<double>(random.Normal())));
    }
  }
  data->episode_ends.push_back(data->n_steps() + kSteps);
}

Demonstrations Recordings(const Pose& home, int n_episodes) {
  Demonstrations data;
  data.signals = {{.name = "action", .dim = kDim, .values = {}}};
  RandomStream random(5, StreamId::kEnvStart);
  for (int i = 0; i < n_episodes; ++i) AddEpisode(home, 0, random, &data);
  return data;
}

void ExchangeArms(std::int64_t episode, Demonstrations* data) {
  std::vector<float>& values = data->signals[0].values;
  for (std::int64_t t = data->EpisodeBegin(episode); t < data->EpisodeEnd(episode); ++t) {
    for (std::int64_t i = 0; i < 2; ++i) {
      std::swap(values[static_cast<std::size_t>(t * kDim + i)],
                values[static_cast<std::size_t>(t * kDim + 2 + i)]);
    }
  }
}

TEST(CheckChannelOrder, ExchangedArmsAreNamedWithTheirEpisode) {
  Demonstrations data = Recordings(kHome, 12);
  for (const std::int64_t episode : {3, 7, 8}) ExchangeArms(episode, &data);
  const Finding finding = CheckChannelOrder(data);
  EXPECT_TRUE(finding.is_problem());
  EXPECT_THAT(finding.evidence,
              AllOf(HasSubstr("'action' in episode 3, from step 0: [0] has the values of [2], [1] "
                              "has the values of [3]"),
                    HasSubstr("'action' in episodes 7 to 8, from step 0: [0] has the values")));
}

TEST(CheckChannelOrder, RecordingsInOneOrderAreNoFault) {
  const Finding finding = CheckChannelOrder(Recordings(kHome, 12));
  EXPECT_EQ(finding.verdict, Judgement::kRejected) << finding.evidence;
}

TEST(CheckChannelOrder, ATaskOfTheOtherArmIsNoFault) {
  Demonstrations data = Recordings(kHome, 10);
  RandomStream random(6, StreamId::kEnvStart);
  for (int i = 0; i < 2; ++i) AddEpisode(kHome, 1, random, &data);
  EXPECT_EQ(CheckChannelOrder(data).verdict, Judgement::kRejected);
}

TEST(CheckChannelOrder, AnotherStartingPoseIsNoFault) {
  Demonstrations data = Recordings(kHome, 10);
  RandomStream random(6, StreamId::kEnvStart);
  AddEpisode({1.0, -0.9, 0.8, 2.0}, 0, random, &data);
  EXPECT_EQ(CheckChannelOrder(data).verdict, Judgement::kRejected);
}

TEST(CheckChannelOrder, ArmsThatBeginAlikeDecideNothing) {
  Demonstrations data = Recordings({0.4, 0.4, 0.4, 0.4}, 10);
  ExchangeArms(3, &data);
  EXPECT_EQ(CheckChannelOrder(data).verdict, Judgement::kInconclusive);
}

TEST(CheckChannelOrder, FewEpisodesDecideNothing) {
  Demonstrations data = Recordings(kHome, 4);
  ExchangeArms(1, &data);
  EXPECT_EQ(CheckChannelOrder(data).verdict, Judgement::kInconclusive);
}

// Exchanges the numbers of a signal in an episode: number i becomes that of order[i].
void Reorder(const std::vector<std::int64_t>& order, std::int64_t episode,
             const Demonstrations& data, Signal* signal) {
  const std::vector<float> old = signal->values;
  for (std::int64_t t = data.EpisodeBegin(episode); t < data.EpisodeEnd(episode); ++t) {
    for (std::int64_t i = 0; i < signal->dim; ++i) {
      signal->values[static_cast<std::size_t>(t * signal->dim + i)] =
          old[static_cast<std::size_t>(t * signal->dim + order[static_cast<std::size_t>(i)])];
    }
  }
}

TEST(CheckChannelOrder, ASessionInAnotherOrderIsNamedAsARange) {
  Demonstrations data = Recordings({0.4, 0.4, -0.9, 1.3}, 10);
  for (std::int64_t i = 4; i < 8; ++i) Reorder({2, 0, 3, 1}, i, data, data.signals.data());
  EXPECT_THAT(CheckChannelOrder(data).evidence,
              testing::StartsWith("'action' in episodes 4 to 7, from step 0: [0] has the values "
                                  "of [2], [2] has the values of [3], [3] has the values of ["));
}

TEST(CheckChannelOrder, ANumberThatBeginsAnywhereHidesNothing) {
  Demonstrations data = Recordings(kHome, 10);
  ExchangeArms(6, &data);
  Signal with_object = {.name = "action", .dim = kDim + 1, .values = {}};
  RandomStream random(8, StreamId::kEnvStart);
  for (std::int64_t t = 0; t < data.n_steps(); ++t) {
    for (std::int64_t i = 0; i < kDim; ++i) {
      with_object.values.push_back(data.signals[0].at(t, i));
    }
    with_object.values.push_back(static_cast<float>(6.0 * random.UniformDouble() - 3.0));
  }
  data.signals[0] = with_object;
  EXPECT_THAT(CheckChannelOrder(data).evidence, testing::StartsWith("'action' in episode 6, "));
}

TEST(CheckChannelOrder, ANumberAndItsMirrorImageAreNoFault) {
  Demonstrations data = Recordings({0.4, 0.0, -0.4, 0.0}, 10);
  ExchangeArms(3, &data);
  EXPECT_FALSE(CheckChannelOrder(data).is_problem());
}

Demonstrations ReachDemonstrations() {
  return ReadDemonstrations(ReachDataset(/*has_images=*/false, 20, 30), {"action", "agent_pos"});
}

TEST(CheckChannelOrder, ObservationsThatFollowOtherActionsAreNamed) {
  Demonstrations data = ReachDemonstrations();
  EXPECT_EQ(CheckChannelOrder(data).verdict, Judgement::kRejected);
  for (const std::int64_t i : {4, 5, 11}) Reorder({1, 0}, i, data, &data.signals[1]);
  const Finding finding = CheckChannelOrder(data);
  EXPECT_TRUE(finding.is_problem());
  EXPECT_EQ(finding.evidence,
            "'action' in episodes 4 to 5, from step 0: [0] belongs to 'agent_pos'[1] instead of "
            "[0], [1] belongs to 'agent_pos'[0] instead of [1]; 'action' in episode 11, from step "
            "0: [0] belongs to 'agent_pos'[1] instead of [0], [1] belongs to 'agent_pos'[0] "
            "instead of [1]");
}

TEST(CheckChannelOrder, ActionsWithoutTheirUsualFollowerAreNoFaultIfTheyHaveNoOther) {
  Demonstrations data = ReachDemonstrations();
  for (std::int64_t t = data.EpisodeBegin(4); t < data.EpisodeEnd(4); ++t) {
    for (int i = 0; i < 2; ++i) data.signals[1].values[static_cast<std::size_t>(2 * t + i)] = 3.0F;
  }
  EXPECT_EQ(CheckChannelOrder(data).verdict, Judgement::kRejected);
}

TEST(CheckChannelOrder, ActionsThatAreNoTargetsDecideNothing) {
  Demonstrations data = ReachDemonstrations();
  for (std::size_t i = 0; i < data.signals[0].values.size(); ++i) {
    data.signals[0].values[i] -= data.signals[1].values[i];  // steps in place of positions
  }
  EXPECT_EQ(CheckChannelOrder(data).verdict, Judgement::kInconclusive);
}

}  // namespace
}  // namespace dp_bench::inspect
