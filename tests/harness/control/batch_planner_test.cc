// Plans for batches that a caller gathered: rows, strides and faults.
#include "control/batch_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "support/error_of.h"

namespace dp_bench::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Horizons kShortHorizons{.horizon = 4, .n_obs_steps = 2, .n_action_steps = 2};
const ShapeMeta kOneKey{.obs = {{.name = "pos", .shape = {2}}},
                        .action = {.name = "action", .shape = {1}}};

// The chunk of a row: its oldest and its latest first number, plus its seed.
class EchoPlanner final : public ChunkPlanner {
 public:
  int batch_size() const override { return 3; }

  void Plan(const ObsBatch& obs, std::span<const PlanRow> rows, std::span<float> actions) override {
    const auto pos = obs.at("pos").as<float>();  // [3, 2, 2]
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t row = std::min(i, rows.size() - 1);
      for (std::size_t step = 0; step < 2; ++step) {
        actions[i * 2 + step] =
            pos[i * 4 + step * 2] + static_cast<float>(rows[row].seed) * seed_weight_;
      }
      padding_ = pos[8];
    }
    n_rows_.push_back(rows.size());
    steps_.clear();
    for (const PlanRow& row : rows) steps_.push_back(row.env_step);
  }

  std::vector<std::size_t> n_rows_;
  std::vector<std::uint64_t> steps_;  // of the last plan
  float padding_ = 0.0F;              // the last row's oldest number
  float seed_weight_ = 100.0F;
};

class BatchPlans : public testing::Test {
 protected:
  // 10 r + 2 t + i for row r, step t, element i
  std::vector<float> Obs(std::size_t n_rows) {
    std::vector<float> obs;
    for (std::size_t row = 0; row < n_rows; ++row) {
      for (int i = 0; i < 4; ++i)
        obs.push_back(static_cast<float>(row * 10) + static_cast<float>(i));
    }
    return obs;
  }

  std::vector<float> Plan(const ObsView& view, std::vector<std::uint64_t> seeds) {
    std::vector<float> chunks(seeds.size() * 2);
    batches_.Plan(std::span(&view, 1), seeds, chunks);
    return chunks;
  }

  EchoPlanner planner_;
  BatchPlanner batches_{planner_, kOneKey, kShortHorizons};
};

TEST_F(BatchPlans, EveryRowGetsItsOwnWindowAndSeed) {
  const std::vector<float> obs = Obs(4);
  EXPECT_THAT(Plan({"pos", obs.data(), {4, 2, 2}}, {1, 2, 3, 4}),
              ElementsAre(100, 102, 210, 212, 320, 322, 430, 432));
  EXPECT_THAT(planner_.n_rows_, ElementsAre(3, 1));
}

TEST_F(BatchPlans, RowsMayBeAtAnyStep) {
  const std::vector<float> obs = Obs(2);
  const ObsView view("pos", obs.data(), {2, 2, 2});
  const std::vector<std::uint64_t> seeds = {1, 2};
  std::vector<float> chunks(4);
  batches_.Plan(std::span(&view, 1), seeds, chunks, std::vector<std::uint64_t>{8, 16});
  EXPECT_THAT(planner_.steps_, ElementsAre(8, 16));
  batches_.Plan(std::span(&view, 1), seeds, chunks);
  EXPECT_THAT(planner_.steps_, ElementsAre(0, 0));
  const std::vector<std::uint64_t> too_few = {8};
  EXPECT_THAT(MessageOf(ErrorCode::kUsage,
                        [&] { batches_.Plan(std::span(&view, 1), seeds, chunks, too_few); }),
              HasSubstr("there are 1 steps, expected 2"));
}

TEST_F(BatchPlans, RowsThatFillABatchRepeatItsFirst) {
  const std::vector<float> obs = Obs(4);
  Plan({"pos", obs.data(), {4, 2, 2}}, {1, 2, 3, 4});
  EXPECT_EQ(planner_.padding_, 30.0F);
}

TEST_F(BatchPlans, NoRowsAreNoPlan) {
  const float unused = 0.0F;
  EXPECT_THAT(Plan({"pos", &unused, {0, 2, 2}}, {}), ElementsAre());
  EXPECT_THAT(planner_.n_rows_, ElementsAre());
}

TEST_F(BatchPlans, ArraysMayHaveAnyStrides) {
  const std::vector<float> obs = {0, 1, 20, 21, 2, 3, 22, 23};  // steps, rows, elements
  const auto bytes = static_cast<std::int64_t>(sizeof(float));
  EXPECT_THAT(Plan({"pos", obs.data(), {2, 2, 2}, {2 * bytes, 4 * bytes, bytes}}, {0, 0}),
              ElementsAre(0, 2, 20, 22));
}

TEST_F(BatchPlans, WrongBatchesAreExplained) {
  const std::vector<float> obs = Obs(3);
  const auto fault = [&](ErrorCode code, const ObsView& view) {
    return MessageOf(code, [&] { Plan(view, {1, 2}); });
  };
  EXPECT_THAT(fault(ErrorCode::kShape, {"pos", obs.data(), {3, 2, 2}}),
              HasSubstr("has shape [3, 2, 2], expected [2, 2, ...]"));
  EXPECT_THAT(fault(ErrorCode::kShape, {"pos", obs.data(), {2, 1, 2}}), HasSubstr("[2, 2, ...]"));
  EXPECT_THAT(fault(ErrorCode::kShape, {"pos", obs.data(), {2}}), HasSubstr("[2, 2, ...]"));
  EXPECT_THAT(fault(ErrorCode::kShape, {"pos", obs.data(), {2, 2, 3}}), HasSubstr("expected [2]"));
  EXPECT_THAT(fault(ErrorCode::kShape, {"speed", obs.data(), {2, 2, 2}}), HasSubstr("speed"));
  EXPECT_THAT(fault(ErrorCode::kShape, {"pos", obs.data(), {2, 2, 2}, {4}}), HasSubstr("strides"));
}

TEST_F(BatchPlans, RoomForAnotherNumberOfChunksIsRefused) {
  const std::vector<float> obs = Obs(1);
  const ObsView view("pos", obs.data(), {1, 2, 2});
  std::vector<float> chunks(3);
  const std::vector<std::uint64_t> seeds = {1};
  EXPECT_THAT(
      MessageOf(ErrorCode::kUsage, [&] { batches_.Plan(std::span(&view, 1), seeds, chunks); }),
      HasSubstr("there is room for 3 numbers, expected 2"));
}

TEST_F(BatchPlans, NumbersThatAreNotFiniteAreRefused) {
  std::vector<float> obs = Obs(2);
  planner_.seed_weight_ = std::nanf("");
  EXPECT_THAT(MessageOf(ErrorCode::kNumeric,
                        [&] {
                          Plan({"pos", obs.data(), {2, 2, 2}}, {1, 2});
                        }),
              HasSubstr("in row 0"));
  obs[5] = std::nanf("");
  EXPECT_THAT(MessageOf(ErrorCode::kNumeric,
                        [&] {
                          Plan({"pos", obs.data(), {2, 2, 2}}, {1, 2});
                        }),
              HasSubstr("the observation 'pos' is nan"));
}

}  // namespace
}  // namespace dp_bench::control
