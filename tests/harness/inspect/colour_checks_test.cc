// Cameras with red and blue exchanged in some episodes are named, and other differences between
// pictures are not.
#include "inspect/colour_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <utility>

#include "harness/inspect/reach_task.h"

namespace dp_bench::inspect {
namespace {

constexpr std::int64_t kLength = 30;  // of an episode
constexpr std::int64_t kFrame = 3 * kImageSize * kImageSize;

// Calls change(pixel, index in the frame) for all pixels of an episode.
template <class Change>
void ForEachPixel(std::int64_t episode, ReachDataset* data, const Change& change) {
  for (std::int64_t i = kLength * episode * kFrame; i < kLength * (episode + 1) * kFrame; i += 3) {
    change(data->image.data() + i, i % kFrame / 3);
  }
}

void ExchangeRedAndBlue(std::int64_t episode, ReachDataset* data) {
  ForEachPixel(episode, data,
               [](std::uint8_t* pixel, std::int64_t) { std::swap(pixel[0], pixel[2]); });
}

using Colour = std::array<std::uint8_t, 3>;

// A bluish wall above a brown table, on which the point of the task moves.
class Room : public ReachDataset {
 public:
  Room() : ReachDataset(/*has_images=*/true, 9, kLength) {
    for (std::int64_t episode = 0; episode < 9; ++episode) {
      ForEachPixel(episode, this, [](std::uint8_t* pixel, std::int64_t index) {
        if (pixel[0] == 220) return;  // the point
        const bool is_wall = index < kImageSize * kImageSize / 2;
        std::ranges::copy(is_wall ? Colour{150, 160, 175} : Colour{150, 110, 70}, pixel);
      });
    }
  }
};

// A white picture with two small objects at places that depend on the episode.
void DrawObjects(std::int64_t episode, const Colour& first, const Colour& second,
                 ReachDataset* data) {
  const std::int64_t place = 37 * episode % 100;
  ForEachPixel(episode, data, [&](std::uint8_t* pixel, std::int64_t index) {
    const bool is_first = index >= place && index < place + 3;
    const bool is_second = index >= place + 100 && index < place + 104;
    std::ranges::copy(is_first ? first : is_second ? second : Colour{250, 250, 250}, pixel);
  });
}

constexpr Colour kBlue = {65, 105, 225};
constexpr Colour kSlate = {119, 136, 153};
constexpr Colour kOrange = {225, 105, 65};

TEST(CheckColourOrder, ExchangedColoursAreNamedWithTheirEpisodes) {
  Room data;
  for (const std::int64_t episode : {2, 5, 6}) ExchangeRedAndBlue(episode, &data);
  const Finding finding = CheckColourOrder(data);
  EXPECT_TRUE(finding.is_problem());
  EXPECT_EQ(finding.evidence,
            "'image' in episode 2, from step 0; 'image' in episodes 5 to 6, from step 0");
}

TEST(CheckColourOrder, PicturesInOneOrderAreNoFault) {
  EXPECT_EQ(CheckColourOrder(Room()).verdict, Judgement::kRejected);
}

TEST(CheckColourOrder, AnotherLightIsNoFault) {
  Room data;
  ForEachPixel(2, &data, [](std::uint8_t* pixel, std::int64_t) {
    pixel[0] = static_cast<std::uint8_t>(pixel[0] / 2 + 60);
    pixel[2] = static_cast<std::uint8_t>(pixel[2] / 2);
  });
  EXPECT_EQ(CheckColourOrder(data).verdict, Judgement::kRejected);
}

// The whole picture is bluish, and reddish in one episode.
TEST(CheckColourOrder, GreyPicturesInLightOfTheOppositeColourDecideNothing) {
  ReachDataset data(/*has_images=*/true, 9, kLength);
  for (std::int64_t episode = 0; episode < 9; ++episode) {
    ForEachPixel(episode, &data, [](std::uint8_t* pixel, std::int64_t) {
      const double grey = pixel[0];
      pixel[0] = static_cast<std::uint8_t>(0.9 * grey);
      pixel[1] = static_cast<std::uint8_t>(grey);
      pixel[2] = static_cast<std::uint8_t>(1.1 * grey);
    });
  }
  ExchangeRedAndBlue(4, &data);
  EXPECT_EQ(CheckColourOrder(data).verdict, Judgement::kInconclusive);
}

TEST(CheckColourOrder, SmallObjectsOfSeveralColoursAreEnough) {
  ReachDataset data(/*has_images=*/true, 9, kLength);
  for (std::int64_t episode = 0; episode < 9; ++episode) {
    DrawObjects(episode, kBlue, kSlate, &data);
  }
  EXPECT_EQ(CheckColourOrder(data).verdict, Judgement::kRejected);
  ExchangeRedAndBlue(4, &data);
  EXPECT_EQ(CheckColourOrder(data).evidence, "'image' in episode 4, from step 0");
}

TEST(CheckColourOrder, OneObjectOfAnotherColourIsNoFault) {
  ReachDataset data(/*has_images=*/true, 9, kLength);
  for (std::int64_t episode = 0; episode < 9; ++episode) {
    DrawObjects(episode, episode == 4 ? kOrange : kBlue, kSlate, &data);
  }
  EXPECT_EQ(CheckColourOrder(data).verdict, Judgement::kRejected);
}

TEST(CheckColourOrder, ASingleObjectDecidesNothing) {
  ReachDataset data(/*has_images=*/true, 9, kLength);
  for (std::int64_t episode = 0; episode < 9; ++episode) {
    DrawObjects(episode, episode == 4 ? kOrange : kBlue, {250, 250, 250}, &data);
  }
  EXPECT_EQ(CheckColourOrder(data).verdict, Judgement::kInconclusive);
}

TEST(CheckColourOrder, GreyPicturesDecideNothing) {
  ReachDataset data(/*has_images=*/true, 9, kLength);
  for (std::int64_t episode = 0; episode < 9; ++episode) {
    ForEachPixel(episode, &data,
                 [](std::uint8_t* pixel, std::int64_t) { pixel[0] = pixel[2] = pixel[1]; });
  }
  EXPECT_EQ(CheckColourOrder(data).verdict, Judgement::kInconclusive);
}

TEST(CheckColourOrder, FewEpisodesOrNoPicturesDecideNothing) {
  Room few;
  few.ends.resize(4);
  ExchangeRedAndBlue(1, &few);
  EXPECT_EQ(CheckColourOrder(few).verdict, Judgement::kInconclusive);
  EXPECT_EQ(CheckColourOrder(ReachDataset(/*has_images=*/false, 9, kLength)).verdict,
            Judgement::kInconclusive);
}

}  // namespace
}  // namespace dp_bench::inspect
