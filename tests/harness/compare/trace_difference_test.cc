// Two recordings of an episode of three steps, observed before the first and the third.
#include "compare/trace_difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "run/episode_trace.h"
#include "support/error_of.h"

namespace dp_bench::compare {
namespace {

using testing::AllOf;
using testing::Field;
using testing::HasSubstr;
using testing::Optional;

/// The episode's data at its step 1, and its length.
struct Episode {
  float action = 0.5F;  // its second number
  double reward = 0.25;
  float pos = 1.0F;        // before step 2
  std::uint8_t pixel = 7;  // before step 2
  int n_steps = 3;
};

ArrayMap Record(const Episode& episode) {
  ShapeMeta meta;
  meta.obs = {{.name = "image", .type = KeyType::kRgb, .shape = {3, 1, 1}, .dtype = DType::kUInt8},
              {.name = "pos", .shape = {1}}};
  meta.action = {.name = "action", .shape = {2}};
  run::EpisodeTrace trace;
  trace.Start(meta, 1);
  for (int step = 0; step < episode.n_steps; ++step) {
    if (step % 2 == 0) {
      const std::vector<std::uint8_t> image(3, step == 0 ? std::uint8_t{1} : episode.pixel);
      const float pos = step == 0 ? 0.0F : episode.pos;
      trace.AddObservation();
      trace.AddKey(0, std::as_bytes(std::span(image)));
      trace.AddKey(1, std::as_bytes(std::span(&pos, 1)));
    }
    const std::vector<float> action = {0.0F, step == 1 ? episode.action : 0.0F};
    const double metric = step;
    trace.AddStep(action, {.reward = step == 1 ? episode.reward : 0.0, .metrics = {&metric, 1}});
  }
  return trace.ToArrays();
}

auto IsAt(std::int64_t step, const std::string& field) {
  return Optional(
      AllOf(Field(&TraceDifference::step, step), Field(&TraceDifference::field, field)));
}

TEST(TraceDifference, EqualTracesHaveNone) {
  EXPECT_EQ(FindFirstDifference(Record({}), Record({})), std::nullopt);
}

TEST(TraceDifference, NamesStepFieldAndBothValues) {
  const auto found = FindFirstDifference(Record({}), Record({.action = 0.50000006F}));
  ASSERT_THAT(found, IsAt(1, "action[1]"));
  EXPECT_EQ(found->a, "0.5");
  EXPECT_EQ(found->b, "0.50000006");
  EXPECT_THAT(FindFirstDifference(Record({}), Record({.reward = 0.5})), IsAt(1, "reward"));
  EXPECT_THAT(FindFirstDifference(Record({}), Record({.pos = 2.0F})), IsAt(2, "obs.pos"));
}

TEST(TraceDifference, OfAnImageShowsTheDigests) {
  const auto found = FindFirstDifference(Record({}), Record({.pixel = 8}));
  ASSERT_THAT(found, IsAt(2, "obs_sha256.image"));
  EXPECT_EQ(found->a.size(), 64U);
  EXPECT_NE(found->a, found->b);
}

// the action comes before its results, and those before the next observation
TEST(TraceDifference, TheFirstInTimeCounts) {
  EXPECT_THAT(FindFirstDifference(Record({}), Record({.action = 1.0F, .reward = 1.0, .pos = 9.0F})),
              IsAt(1, "action[1]"));
  EXPECT_THAT(FindFirstDifference(Record({}), Record({.reward = 1.0, .pixel = 9, .n_steps = 2})),
              IsAt(1, "reward"));
}

TEST(TraceDifference, AnEpisodeThatEndsEarlierEndsThere) {
  const auto found = FindFirstDifference(Record({}), Record({.n_steps = 2}));
  ASSERT_THAT(found, IsAt(2, "end"));
  EXPECT_EQ(found->a, "3 steps");
  EXPECT_EQ(found->b, "2 steps");
  EXPECT_THAT(FindFirstDifference(Record({.n_steps = 0}), Record({})), IsAt(0, "end"));
}

TEST(TraceDifference, OtherFieldsAreAnError) {
  ArrayMap foreign = Record({});
  foreign.erase("obs.pos");
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { FindFirstDifference(Record({}), foreign); }),
              HasSubstr("obs.pos float32 [1]"));
}

}  // namespace
}  // namespace dp_bench::compare
