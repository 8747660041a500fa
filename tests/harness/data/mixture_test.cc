#include "data/mixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "harness/data/fake_dataset.h"
#include "support/error_of.h"
#include "support/read_all.h"

namespace dp_bench::data {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// Records tasks, and has an action alone, at another rate.
std::unique_ptr<Dataset> Recorded() {
  auto dataset = std::make_unique<FakeDataset>(std::vector<std::int64_t>{1, 2});
  dataset->tasks = {"push", ""};
  dataset->changed_spec() = {
      .keys = {{.name = "action", .shape = {2}}, {.name = "task", .shape = {1}}}, .fps = 20.0};
  return dataset;
}

MixturePart Fake(const std::string& name, std::vector<std::int64_t> ends, double weight = 1.0) {
  return {.name = name,
          .dataset = std::make_unique<FakeDataset>(std::move(ends)),
          .task = name,
          .weight = weight};
}

template <class... Part>
std::vector<MixturePart> Parts(Part... part) {
  std::vector<MixturePart> parts;
  (parts.push_back(std::move(part)), ...);
  return parts;
}

TaskKey KeyOf(const std::string& tasks) {
  return TaskKey::FromConfig(Config::FromJson(R"({"tasks": )" + tasks + "}"));
}

SequenceSampler SamplerOf(const Dataset& dataset) {
  const auto ends = dataset.episode_ends();
  return SequenceSampler({.episode_ends = {ends.begin(), ends.end()}, .horizon = 1});
}

// How often sequences of each part are visited in `n_epochs`.
std::map<std::string, std::int64_t> VisitsByTask(const Mixture& mixture, int n_epochs) {
  BatchLoader loader(mixture, SamplerOf(mixture),
                     {.batch_size = 4, .seed = 7, .n_obs_steps = 1, .keys = {}});
  std::map<std::string, std::int64_t> visits;
  HostBatch batch;
  for (int epoch = 0; epoch < n_epochs; ++epoch) {
    loader.StartEpoch(static_cast<std::uint64_t>(epoch));
    while (loader.Next(&batch)) {
      for (const std::int64_t step : batch.indices) {  // a horizon of 1: sequences are steps
        const auto ends = mixture.episode_ends();
        ++visits[mixture.Task(std::ranges::upper_bound(ends, step) - ends.begin())];
      }
    }
  }
  return visits;
}

TEST(MixtureTest, ReadsTheStepsOfAllPartsInTheirOrder) {
  const Mixture mixture(Parts(Fake("a", {2, 5}), Fake("b", {3})), {},
                        MixtureSampling::kProportional);
  EXPECT_THAT(mixture.episode_ends(), ElementsAre(2, 5, 8));
  EXPECT_EQ(mixture.spec().fps, 10.0);
  ASSERT_EQ(mixture.spec().keys.size(), 3);
  // action is step + 0.25 d, of each part's own steps
  EXPECT_THAT(ReadSteps<float>(mixture, "action", 3, 7),
              ElementsAre(3.0F, 3.25F, 4.0F, 4.25F, 0.0F, 0.25F, 1.0F, 1.25F));
  EXPECT_EQ(mixture.Task(1), "a");
  EXPECT_EQ(mixture.Task(2), "b");
}

TEST(MixtureTest, TheTaskKeyHasTheVectorOfEachEpisodesTask) {
  const Mixture mixture(Parts(Fake("b", {2, 3}), Fake("a", {2})), KeyOf(R"(["a", "b"])"),
                        MixtureSampling::kProportional);
  EXPECT_THAT(ReadSteps<float>(mixture, "task", 0, 5), ElementsAre(0, 1, 0, 1, 0, 1, 1, 0, 1, 0));
  EXPECT_THAT(ReadSteps<float>(mixture, "task", 3, 4), ElementsAre(1, 0));
  EXPECT_EQ(mixture.spec().keys.back().type, KeyType::kTask);
}

TEST(MixtureTest, TheTaskOfAnEpisodeIsTheGivenOneOrElseTheRecordedOrElseTheName) {
  std::vector<MixturePart> parts;
  parts.push_back({.name = "x", .dataset = Recorded(), .task = "", .or_else = "reach"});
  parts.push_back({.name = "y", .dataset = Recorded(), .task = "pull"});
  const Mixture mixture(std::move(parts), KeyOf(R"(["push", "reach", "pull"])"),
                        MixtureSampling::kProportional);
  EXPECT_EQ(mixture.Task(0), "push");
  EXPECT_EQ(mixture.Task(1), "reach");
  EXPECT_EQ(mixture.Task(2), "pull");
  // in place of the key that the data have
  EXPECT_THAT(ReadSteps<float>(mixture, "task", 0, 2), ElementsAre(1, 0, 0, 0, 1, 0));
}

TEST(MixtureTest, LeavesOutAKeyThatDiffersBetweenParts) {
  auto other = std::make_unique<FakeDataset>(std::vector<std::int64_t>{2});
  other->changed_spec().keys[2].shape = {4};
  std::vector<MixturePart> parts = Parts(Fake("a", {2}));
  parts.push_back({.name = "b", .dataset = std::move(other), .task = "b"});
  const Mixture mixture(std::move(parts), {}, MixtureSampling::kProportional);
  ASSERT_EQ(mixture.spec().keys.size(), 2);
  EXPECT_EQ(mixture.spec().keys[1].name, "image");
}

TEST(MixtureTest, LeavesOutAKeyWhoseChannelsAreInAnotherOrder) {
  const auto part = [](const std::string& name, const std::vector<std::string>& channels) {
    auto dataset = std::make_unique<FakeDataset>(std::vector<std::int64_t>{2});
    dataset->action_channels = channels;
    return MixturePart{.name = name, .dataset = std::move(dataset), .task = name};
  };
  const auto mix = [&](const std::vector<std::string>& second) {
    const Mixture mixture(Parts(part("a", {"x", "y"}), part("b", second)), {},
                          MixtureSampling::kProportional);
    return mixture.spec().keys.size();
  };
  EXPECT_EQ(mix({"x", "y"}), 3U);
  testing::internal::CaptureStderr();
  EXPECT_EQ(mix({"y", "x"}), 2U);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("leaves out 'action', whose channels are x, y in 'a' and y, x in 'b'"));
  testing::internal::CaptureStderr();
  EXPECT_EQ(mix({"x.pos", "y.pos"}), 3U);  // may be the same, spelled in another way
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("joins 'action'"));
  EXPECT_EQ(mix({}), 3U);
}

TEST(MixtureTest, HasOnlyTheKeysOfAllParts) {
  std::vector<MixturePart> parts = Parts(Fake("a", {2}));
  parts.push_back({.name = "b", .dataset = Recorded(), .task = "b"});
  testing::internal::CaptureStderr();
  const Mixture mixture(std::move(parts), {}, MixtureSampling::kProportional);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("the mixture has 10 Hz in 'a' and 20 Hz in 'b'"));
  ASSERT_EQ(mixture.spec().keys.size(), 1);
  EXPECT_EQ(mixture.spec().keys[0].name, "action");
  EXPECT_EQ(mixture.spec().fps, 0.0);
}

TEST(MixtureTest, AnUnknownTaskIsRefusedWithItsDataset) {
  const std::string message = MessageOf(ErrorCode::kConfig, [] {
    const Mixture mixture(Parts(Fake("a", {2})), KeyOf(R"(["b"])"), MixtureSampling::kProportional);
  });
  EXPECT_THAT(
      message,
      HasSubstr("the task of episode 0 of 'a' is 'a', which is none of its tasks. They are: b"));
}

TEST(MixtureTest, WithoutWeightsAnEpochIsThatOfOneDataset) {
  const Mixture mixture(Parts(Fake("a", {6}), Fake("b", {2})), {}, MixtureSampling::kProportional);
  EXPECT_TRUE(mixture.PoolsOf(SamplerOf(mixture)).empty());
  EXPECT_THAT(VisitsByTask(mixture, 3), ElementsAre(std::pair("a", 18), std::pair("b", 6)));
}

TEST(MixtureTest, BalancedSamplingVisitsAllTasksEquallyOften) {
  const Mixture mixture(Parts(Fake("a", {6}), Fake("b", {2})), {}, MixtureSampling::kBalanced);
  EXPECT_THAT(VisitsByTask(mixture, 1), ElementsAre(std::pair("a", 4), std::pair("b", 4)));
}

TEST(MixtureTest, TwoDatasetsOfATaskShareItsVisits) {
  std::vector<MixturePart> parts = Parts(Fake("a", {6}), Fake("a", {2}), Fake("b", {4}));
  const Mixture mixture(std::move(parts), {}, MixtureSampling::kBalanced);
  std::map<std::size_t, double> shares;
  for (const SamplePool& pool : mixture.PoolsOf(SamplerOf(mixture))) {
    shares[pool.sequences.size()] = pool.share;
  }
  EXPECT_DOUBLE_EQ(shares[6], 0.375);
  EXPECT_DOUBLE_EQ(shares[2], 0.125);
  EXPECT_DOUBLE_EQ(shares[4], 0.5);
}

TEST(MixtureTest, WeightsAreFactorsOfTheVisits) {
  const Mixture mixture(Parts(Fake("a", {6}), Fake("b", {6}, 3.0)), {},
                        MixtureSampling::kProportional);
  EXPECT_THAT(VisitsByTask(mixture, 2), ElementsAre(std::pair("a", 6), std::pair("b", 18)));
}

std::vector<SamplePool> TwoPools() {
  std::vector<SamplePool> pools = {{.share = 0.7}, {.share = 0.3}};
  pools[0].sequences = {0, 1, 2, 3, 4};
  pools[1].sequences = {5, 6, 7, 8, 9, 10, 11};
  return pools;
}

TEST(MixedEpochOrderTest, OverTheEpochsAPoolVisitsItsSequencesEquallyOften) {
  std::map<std::int64_t, int> visits;
  for (std::uint64_t epoch = 0; epoch < 35; ++epoch) {
    const std::vector<std::int64_t> order = MixedEpochOrder(1, epoch, 10, TwoPools());
    ASSERT_EQ(order.size(), 10);
    EXPECT_EQ(std::ranges::count_if(order, [](std::int64_t i) { return i < 5; }), 7);
    for (const std::int64_t i : order) ++visits[i];
  }
  for (const auto& [sequence, n] : visits) EXPECT_EQ(n, sequence < 5 ? 49 : 15) << sequence;
}

TEST(MixedEpochOrderTest, DependsOnlyOnSeedAndEpoch) {
  const auto order = [](std::uint64_t seed, std::uint64_t epoch) {
    return MixedEpochOrder(seed, epoch, 12, TwoPools());
  };
  EXPECT_EQ(order(1, 9), order(1, 9));
  EXPECT_NE(order(1, 9), order(1, 10));
  EXPECT_NE(order(1, 9), order(2, 9));
}

TEST(MixedEpochOrderTest, SharesThatAreNoWholeNumbersAreRoundedToTheWholeEpoch) {
  std::vector<SamplePool> pools(3, SamplePool{.sequences = {0}, .share = 1.0 / 3.0});
  for (std::int64_t i = 0; i < 3; ++i) pools[static_cast<std::size_t>(i)].sequences = {i};
  const std::vector<std::int64_t> order = MixedEpochOrder(1, 0, 8, pools);
  std::map<std::int64_t, int> visits;
  for (const std::int64_t i : order) ++visits[i];
  EXPECT_THAT(visits, ElementsAre(std::pair(0, 3), std::pair(1, 3), std::pair(2, 2)));
}

TEST(MixedEpochOrderTest, AShareOfLessThanAVisitIsOne) {
  std::vector<SamplePool> pools = TwoPools();
  pools.push_back({.sequences = {12}, .share = 0.01});
  pools[0].share = 0.98;
  pools[1].share = 0.01;
  std::map<std::int64_t, int> visits;
  for (std::uint64_t epoch = 0; epoch < 7; ++epoch) {
    const std::vector<std::int64_t> order = MixedEpochOrder(1, epoch, 13, pools);
    ASSERT_EQ(order.size(), 13);
    for (const std::int64_t i : order) ++visits[i];
  }
  EXPECT_EQ(visits[12], 7);
  for (std::int64_t i = 5; i < 12; ++i) EXPECT_EQ(visits[i], 1) << i;
}

std::optional<MixtureConfig> ReadConfig(const std::string& dataset) {
  const Config config = Config::FromJson(dataset, "a.json");
  return MixtureConfig::Find(config);
}

TEST(MixtureConfigTest, ReadsTasksAndDatasets) {
  const auto mixture = ReadConfig(R"({"mixture": {
      "tasks": ["reach"], "sampling": "balanced",
      "datasets": {"door": {"path": "door.zarr", "weight": 2},
                   "other": {"plugin": "hdf5", "params": {"path": "a.hdf5"}, "task": "push"}}}})");
  ASSERT_TRUE(mixture.has_value());
  EXPECT_THAT(mixture->tasks, ElementsAre("reach"));
  EXPECT_EQ(mixture->sampling, MixtureSampling::kBalanced);
  ASSERT_EQ(mixture->sources.size(), 2);
  EXPECT_EQ(mixture->sources[0].path, "door.zarr");
  EXPECT_EQ(mixture->sources[0].weight, 2.0);
  EXPECT_EQ(mixture->sources[1].plugin, "hdf5");
  EXPECT_EQ(mixture->sources[1].task, "push");
  EXPECT_FALSE(ReadConfig("{}").has_value());
}

TEST(MixtureConfigTest, RefusesOneThatNamesNoData) {
  const auto refusal = [](const std::string& dataset) {
    return MessageOf(ErrorCode::kConfig, [&] { ReadConfig(dataset); });
  };
  EXPECT_THAT(refusal(R"({"mixture": {}})"), HasSubstr("expected tasks or datasets, found none"));
  EXPECT_THAT(refusal(R"({"mixture": {"datasets": {"a": {}}}})"),
              AllOf(HasSubstr("mixture.datasets.a"), HasSubstr("expected path or plugin")));
  EXPECT_THAT(refusal(R"({"plugin": "hdf5", "mixture": {"tasks": ["a"]}})"),
              HasSubstr("plugin: expected none beside dataset.mixture"));
  EXPECT_THAT(refusal(R"({"mixture": {"datasets": {"a": {"path": "x", "weight": 0}}}})"),
              HasSubstr("weight"));
}

}  // namespace
}  // namespace dp_bench::data
