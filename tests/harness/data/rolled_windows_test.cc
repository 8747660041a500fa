// VLASH's training windows: actions of d steps later, with the robot's own state rolled forward to
// there and every other observation as it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "data/loader.h"
#include "harness/data/fake_dataset.h"

namespace dp_bench::data {
namespace {

constexpr int kRolledHorizon = 6;
constexpr int kRolledObsSteps = 2;
const std::vector<int> kFollowedByState = {1, -1, 0};

class RolledWindows : public testing::Test {
 protected:
  std::vector<HostBatch> EpochOf(int max_roll_forward, std::uint64_t epoch = 0,
                                 std::int64_t first_batch = 0, int n_threads = 0,
                                 Shard shard = {}) {
    BatchLoader loader(dataset_, sampler_,
                       {.batch_size = 7,
                        .seed = 3,
                        .n_obs_steps = kRolledObsSteps,
                        .keys = {"image", "state"},
                        .n_threads = n_threads,
                        .shard = shard,
                        .max_roll_forward = max_roll_forward,
                        .followed_actions = {{"state", kFollowedByState}}});
    std::vector<HostBatch> batches;
    HostBatch batch;
    loader.StartEpoch(epoch, first_batch);
    while (loader.Next(&batch)) batches.push_back(batch);
    return batches;
  }

  // The delay of a row, from its actions: those of which later sequence they are.
  std::int64_t DelayOf(const HostBatch& batch, std::size_t row) const {
    for (std::int64_t delay = 0; batch.indices[row] + delay < sampler_.size(); ++delay) {
      if (HasActionsOf(batch.indices[row] + delay, batch, row)) return delay;
    }
    ADD_FAILURE() << "the actions of row " << row << " are of no later sequence";
    return -1;
  }

  bool HasActionsOf(std::int64_t index, const HostBatch& batch, std::size_t row) const {
    const std::vector<std::int64_t> steps = StepsOf(sampler_, index);
    const Sequence& sequence = sampler_.at(index);
    for (int t = 0; t < kRolledHorizon; ++t) {
      const std::size_t at = row * kRolledHorizon + static_cast<std::size_t>(t);
      const bool is_pad = t < sequence.n_pad_front || t >= kRolledHorizon - sequence.n_pad_back;
      if ((batch.is_pad.as<std::uint8_t>()[at] != 0) != is_pad) return false;
      if (batch.action.as<float>()[2 * at] !=
          FakeDataset::Action(steps[static_cast<std::size_t>(t)], 0)) {
        return false;
      }
    }
    return true;
  }

  const FakeDataset dataset_{{9, 20, 21, 60}};
  const SequenceSampler sampler_{{.episode_ends = {9, 20, 21, 60},
                                  .horizon = kRolledHorizon,
                                  .pad_before = kRolledObsSteps - 1,
                                  .pad_after = kRolledHorizon - kRolledObsSteps}};
};

TEST_F(RolledWindows, TheStateIsThatOfTheMomentInWhichThePlanIsThere) {
  std::set<std::int64_t> delays;
  for (const HostBatch& batch : EpochOf(4)) {
    for (std::size_t row = 0; row < batch.indices.size(); ++row) {
      const std::vector<std::int64_t> steps = StepsOf(sampler_, batch.indices[row]);
      const std::int64_t delay = DelayOf(batch, row);
      delays.insert(delay);
      const std::vector<std::int64_t> later = StepsOf(sampler_, batch.indices[row] + delay);
      for (std::size_t frame = 0; frame < kRolledObsSteps; ++frame) {
        const std::size_t at = row * kRolledObsSteps + frame;
        for (std::size_t e = 0; e < 3; ++e) {
          const std::int64_t step = kFollowedByState[e] < 0 ? steps[frame] : later[frame];
          EXPECT_EQ(batch.obs.at("state").as<float>()[3 * at + e],
                    static_cast<float>(FakeDataset::State(step, static_cast<int>(e))))
              << "sequence " << batch.indices[row] << ", delay " << delay << ", frame " << frame;
        }
        EXPECT_EQ(batch.obs.at("image").as<std::uint8_t>()[12 * at],
                  FakeDataset::Image(steps[frame], 0));
      }
    }
  }
  EXPECT_EQ(delays, (std::set<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST_F(RolledWindows, WithoutADelayBatchesAreBitEqual) {
  const auto is_equal = [](const Array& a, const Array& b, std::size_t row, std::size_t n_rows) {
    const std::size_t size = a.bytes().size() / n_rows;
    return std::ranges::equal(a.bytes().subspan(row * size, size),
                              b.bytes().subspan(row * size, size));
  };
  const std::vector<HostBatch> plain = EpochOf(0);
  const std::vector<HostBatch> rolled = EpochOf(4);
  ASSERT_EQ(plain.size(), rolled.size());
  int n_equal = 0;
  int n_rows_in_all = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    ASSERT_EQ(plain[i].indices, rolled[i].indices);
    const std::size_t n_rows = plain[i].indices.size();
    for (std::size_t row = 0; row < n_rows; ++row, ++n_rows_in_all) {
      EXPECT_EQ(DelayOf(plain[i], row), 0) << "max_roll_forward is 0";
      if (DelayOf(rolled[i], row) != 0) continue;
      ++n_equal;
      EXPECT_TRUE(is_equal(plain[i].action, rolled[i].action, row, n_rows));
      EXPECT_TRUE(is_equal(plain[i].is_pad, rolled[i].is_pad, row, n_rows));
      for (const auto& [key, array] : plain[i].obs) {
        EXPECT_TRUE(is_equal(array, rolled[i].obs.at(key), row, n_rows)) << key;
      }
    }
  }
  EXPECT_GT(n_equal, 5);
  EXPECT_LT(n_equal, n_rows_in_all / 2);
}

TEST_F(RolledWindows, ADelayDependsOnSeedEpochAndPlaceInTheEpochAlone) {
  const std::vector<HostBatch> whole = EpochOf(4, 1);
  const auto delays_of = [&](const HostBatch& batch) {
    std::vector<std::int64_t> delays;
    for (std::size_t row = 0; row < batch.indices.size(); ++row) {
      delays.push_back(DelayOf(batch, row));
    }
    return delays;
  };
  EXPECT_EQ(delays_of(EpochOf(4, 1, /*first_batch=*/3)[0]), delays_of(whole[3])) << "resumed";
  EXPECT_EQ(delays_of(EpochOf(4, 1, 0, /*n_threads=*/3)[5]), delays_of(whole[5])) << "threads";
  std::vector<std::int64_t> shared;
  for (const int rank : {0, 1}) {
    const auto part = delays_of(EpochOf(4, 1, 0, 0, {.index = rank, .count = 2})[2]);
    shared.insert(shared.end(), part.begin(), part.end());
  }
  EXPECT_EQ(shared, delays_of(whole[2])) << "shards";

  // the same sequences draw other delays in the next epoch
  std::vector<std::int64_t> first(static_cast<std::size_t>(sampler_.size()));
  std::vector<std::int64_t> second = first;
  for (auto [epoch, delays] : {std::pair(1, &first), std::pair(2, &second)}) {
    for (const HostBatch& batch : EpochOf(4, static_cast<std::uint64_t>(epoch))) {
      for (std::size_t row = 0; row < batch.indices.size(); ++row) {
        (*delays)[static_cast<std::size_t>(batch.indices[row])] = DelayOf(batch, row);
      }
    }
  }
  EXPECT_NE(first, second);
}

}  // namespace
}  // namespace dp_bench::data
