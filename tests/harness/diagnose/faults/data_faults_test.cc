// Faults planted in the data are named.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "core/random_streams.h"
#include "diagnose/data_checks.h"
#include "harness/diagnose/faults/planted_fault.h"

namespace dp_bench::diagnose {
namespace {

void ShuffleActions(ReachDataset& data) {
  RandomStream random(3, core::kShuffleStream);
  const auto n = static_cast<std::uint32_t>(data.n_steps());
  for (std::uint32_t i = n - 1; i > 0; --i) {
    const std::uint32_t j = random.UniformInt(i + 1);
    for (std::uint32_t d = 0; d < 2; ++d) std::swap(data.action[2 * i + d], data.action[2 * j + d]);
  }
}

// Every step three times in a row.
void StandStill(ReachDataset& data) {
  for (std::vector<float>* values : {&data.action, &data.agent_pos, &data.goal}) {
    for (std::size_t i = 0; i < values->size(); ++i) {
      (*values)[i] = (*values)[i / 6 * 6 + i % 2];
    }
  }
}

void RepeatEpisodes(ReachDataset& data) {
  const std::int64_t n = data.n_steps();
  const std::size_t n_episodes = data.ends.size();
  for (std::vector<float>* values : {&data.action, &data.agent_pos, &data.goal}) {
    const std::vector<float> once = *values;
    values->insert(values->end(), once.begin(), once.end());
  }
  for (std::size_t i = 0; i < n_episodes; ++i) data.ends.push_back(n + data.ends[i]);
}

void CutShort(ReachDataset& data) {
  data.ends.clear();
  const std::int64_t n = std::ssize(data.action) / 2;
  for (std::int64_t end = 5; end <= n; end += 5) data.ends.push_back(end);
}

void Scale(float factor, std::vector<float>* values) {
  for (float& value : *values) value *= factor;
}

void ShrinkObservations(ReachDataset& data) {
  Scale(0.01F, &data.agent_pos);
  Scale(0.01F, &data.goal);
}

const std::vector<Case> kDataFaults = {
    {"NanInTheData", "data.not_finite",
     Data([](auto& data) { data.agent_pos[77] = std::numeric_limits<float>::quiet_NaN(); })},
    {"ActionsThatNeverChange", "data.constant_action",
     Data([](auto& data) { std::ranges::fill(data.action, 0.5F); })},
    {"IdleSteps", "data.idle_steps", Data(StandStill)},
    {"EpisodesTwice", "data.duplicate_episodes", Data(RepeatEpisodes)},
    {"ValidationInTraining", "data.leakage", Data(RepeatEpisodes)},
    {"EpisodesShorterThanTheHorizon", "data.short_episodes", Data(CutShort)},
    {"EpisodesWithoutASequence", "data.short_episodes", Overrides({"horizon=40"})},
    {"AGlitch", "data.outliers", Data([](auto& data) { data.agent_pos[100] = 400.0F; })},
    {"ShuffledActions", "data.shuffled_actions", Data(ShuffleActions)},
    {"StillCamera", "data.still_camera",
     Data([](auto& data) { std::ranges::fill(data.image, std::uint8_t{9}); }), true},
    {"ActionsInOtherUnits", "data.actions_outside_limits",
     Data([](auto& data) { Scale(57.3F, &data.action); })},
    {"AnotherRate", "data.rate", Data([](auto& data) { data.set_fps(30.0); })},
    {"ObservationsInOtherUnits", "env.observations_outside_data", Data(ShrinkObservations)},
};

class DataFault : public testing::TestWithParam<Case> {};

TEST_P(DataFault, IsNamed) { ExpectNamed(GetParam()); }

// `env.observations_outside_data` of n episodes whose observations have other units.
Judgement StartsOfShrunkenData(int n_episodes, bool is_sample) {
  ReachDataset dataset(/*has_images=*/false, n_episodes);
  ShrinkObservations(dataset);
  Demonstrations data = ReadDemonstrations(dataset, {"action", "agent_pos", "goal"});
  data.is_sample = is_sample;
  const ReachEnvParams params;
  ReachEnv env(params);
  const Findings findings = CheckEnv(env, dataset.spec().fps, data, env.spec().shape_meta);
  return Find(findings, "env.observations_outside_data")->verdict;
}

TEST(StartsOutsideTheData, AreLeftOpenByAFewEpisodesOfASample) {
  EXPECT_EQ(StartsOfShrunkenData(9, /*is_sample=*/true), Judgement::kInconclusive);
  EXPECT_EQ(StartsOfShrunkenData(10, /*is_sample=*/true), Judgement::kConfirmed);
  EXPECT_EQ(StartsOfShrunkenData(2, /*is_sample=*/false), Judgement::kConfirmed);
}

INSTANTIATE_TEST_SUITE_P(Planted, DataFault, testing::ValuesIn(kDataFaults), NameOf);

}  // namespace
}  // namespace dp_bench::diagnose
