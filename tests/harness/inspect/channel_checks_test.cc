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
using testing::Not;

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
                    HasSubstr("episode 7"), HasSubstr("episode 8"), Not(HasSubstr("episode 4"))));
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

// Changes the pixels of one episode of a data set with 30 steps an episode.
template <class Change>
void ForEachPixel(std::int64_t episode, ReachDataset* data, const Change& change) {
  constexpr std::int64_t kFrame = 3 * kImageSize * kImageSize;
  for (std::int64_t i = 30 * episode * kFrame; i < 30 * (episode + 1) * kFrame; i += 3) {
    change(data->image.data() + i);
  }
}

TEST(CheckColourOrder, ExchangedColoursAreNamedWithTheirEpisode) {
  ReachDataset data(/*has_images=*/true, 9, 30);
  for (const std::int64_t episode : {2, 5}) {
    ForEachPixel(episode, &data, [](std::uint8_t* pixel) { std::swap(pixel[0], pixel[2]); });
  }
  const Finding finding = CheckColourOrder(data);
  EXPECT_TRUE(finding.is_problem());
  EXPECT_THAT(finding.evidence,
              AllOf(HasSubstr("'image' in episode 2, from step 0"),
                    HasSubstr("'image' in episode 5, from step 0"), Not(HasSubstr("episode 3"))));
}

TEST(CheckColourOrder, PicturesInOneOrderAreNoFault) {
  EXPECT_EQ(CheckColourOrder(ReachDataset(/*has_images=*/true, 9, 30)).verdict,
            Judgement::kRejected);
}

TEST(CheckColourOrder, AnotherLightIsNoFault) {
  ReachDataset data(/*has_images=*/true, 9, 30);
  ForEachPixel(2, &data, [](std::uint8_t* pixel) {
    pixel[0] = static_cast<std::uint8_t>(pixel[0] / 2 + 60);
    pixel[2] = static_cast<std::uint8_t>(pixel[2] / 2);
  });
  EXPECT_EQ(CheckColourOrder(data).verdict, Judgement::kRejected);
}

TEST(CheckColourOrder, GreyPicturesDecideNothing) {
  ReachDataset data(/*has_images=*/true, 9, 30);
  for (std::int64_t episode = 0; episode < 9; ++episode) {
    ForEachPixel(episode, &data, [](std::uint8_t* pixel) { pixel[0] = pixel[2] = pixel[1]; });
  }
  EXPECT_EQ(CheckColourOrder(data).verdict, Judgement::kInconclusive);
}

TEST(CheckColourOrder, WithoutPicturesNothingIsDecided) {
  EXPECT_EQ(CheckColourOrder(ReachDataset(/*has_images=*/false, 9, 30)).verdict,
            Judgement::kInconclusive);
}

}  // namespace
}  // namespace dp_bench::inspect
