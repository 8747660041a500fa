// Where two records of plans part, and what would explain it.
#include "compare/plan_difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dp_bench/error.h"
#include "support/scratch_folder.h"

namespace dp_bench::compare {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// A window of two images of 3 x 4 pixels, in which all numbers differ.
Array Images() {
  Array images(DType::kUInt8, {2, 3, 4, 3});
  const std::span<std::uint8_t> pixels = images.as<std::uint8_t>();
  std::iota(pixels.begin(), pixels.end(), std::uint8_t{1});
  return images;
}

// Each pixel is that at the place which `from` gives.
Array Rearranged(const std::function<std::vector<std::int64_t>(
                     std::int64_t row, std::int64_t column, std::int64_t channel)>& from) {
  const Array images = Images();
  Array other(DType::kUInt8, images.shape());
  for (std::int64_t image = 0; image < 2; ++image) {
    for (std::int64_t i = 0; i < 3 * 4 * 3; ++i) {
      const std::vector<std::int64_t> place = from(i / 12, i / 3 % 4, i % 3);
      other.as<std::uint8_t>()[static_cast<std::size_t>(36 * image + i)] =
          images.as<std::uint8_t>()[static_cast<std::size_t>(36 * image + 12 * place[0] +
                                                             3 * place[1] + place[2])];
    }
  }
  return other;
}

TEST(ExplainArrays, NamesOtherChannelsAndFlips) {
  EXPECT_THAT(ExplainArrays(Images(), Rearranged([](auto row, auto column, auto channel) {
                              return std::vector{row, column, 2 - channel};
                            })),
              HasSubstr("RGB and BGR"));
  EXPECT_EQ(ExplainArrays(Images(), Rearranged([](auto row, auto column, auto channel) {
                            return std::vector{2 - row, column, channel};
                          })),
            "B is A upside down");
  EXPECT_EQ(ExplainArrays(Images(), Rearranged([](auto row, auto column, auto channel) {
                            return std::vector{row, 3 - column, channel};
                          })),
            "B is A mirrored");
  EXPECT_EQ(ExplainArrays(Images(), Rearranged([](auto row, auto column, auto channel) {
                            return std::vector{2 - row, 3 - column, channel};
                          })),
            "B is A rotated by 180 degrees");
}

Array Window(std::initializer_list<float> numbers) {
  Array window(DType::kFloat32, {static_cast<std::int64_t>(numbers.size()) / 2, 2});
  std::ranges::copy(numbers, window.as<float>().begin());
  return window;
}

TEST(ExplainArrays, NamesAnotherHistory) {
  const Array a = Window({1, 2, 3, 4, 5, 6});
  EXPECT_THAT(ExplainArrays(a, Window({5, 6, 5, 6, 5, 6})), HasSubstr("B has no history"));
  EXPECT_THAT(ExplainArrays(Window({5, 6, 5, 6, 5, 6}), a), HasSubstr("A has no history"));
  EXPECT_EQ(ExplainArrays(a, Window({5, 6, 3, 4, 1, 2})), "B has the steps in the opposite order");
  EXPECT_THAT(ExplainArrays(a, Window({7, 7, 3, 4, 5, 6})), HasSubstr("only the history differs"));
  EXPECT_EQ(ExplainArrays(a, Window({0, 0, 1, 2, 3, 4})), "B is one step behind A");
  EXPECT_EQ(ExplainArrays(a, Window({3, 4, 5, 6, 7, 8})), "A is one step behind B");
  EXPECT_EQ(ExplainArrays(Window({1, 2, 1, 9}), Window({1, 2, 1, 2})), "");
}

TEST(ExplainArrays, NamesScaleSizeAndLayout) {
  Array scaled(DType::kFloat32, {2, 3, 4, 3});
  std::ranges::transform(Images().as<std::uint8_t>(), scaled.as<float>().begin(),
                         [](std::uint8_t value) { return static_cast<float>(value) / 255.0F; });
  EXPECT_EQ(ExplainArrays(scaled, Images()), "B is 255 times A");
  EXPECT_THAT(ExplainArrays(Images(), Array(DType::kUInt8, {2, 3, 3, 4})), HasSubstr("layout"));
  EXPECT_THAT(ExplainArrays(Images(), Array(DType::kUInt8, {2, 6, 8, 3})), HasSubstr("resized"));
  EXPECT_EQ(ExplainArrays(Window({1, 2}), Window({1, 3})), "");
  EXPECT_EQ(ExplainArrays(Window({0, 0}), Window({1, 3})), "");
}

// A question about one window [1, 2] of "pos", with one action.
struct Plan {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  float pos = 0.0F;
  float action = 0.0F;
  std::string fault = {};
};

class PlanComparisonTest : public testing::Test {
 protected:
  run::PlanRecord Record(const char* name, const std::vector<Plan>& plans) {
    run::PlanRecordWriter writer(scratch_.path() / name);
    for (const Plan& plan : plans) {
      control::ObsBatch obs;
      obs.emplace("pos", Array(DType::kFloat32, {1, 1, 2}));
      obs.find("pos")->second.as<float>()[1] = plan.pos;
      const control::PlanRow row{.seed = plan.seed, .env_step = plan.step};
      const std::vector<float> actions = {0.0F, plan.action};
      writer.Add(obs, {&row, 1}, {&plan.fault, 1}, actions, {1, 2});
    }
    return run::PlanRecord(scratch_.path() / name);
  }

  PlanComparison Compare(const std::vector<Plan>& a, const std::vector<Plan>& b) {
    run::PlanRecord in_a = Record("a", a);
    run::PlanRecord in_b = Record("b", b);
    return ComparePlans(in_a, in_b);
  }

  ScratchFolder scratch_;
};

TEST_F(PlanComparisonTest, PairsBySeedAndStepWhateverTheOrder) {
  const PlanComparison result =
      Compare({{.seed = 1, .pos = 1}, {.seed = 2, .pos = 2}, {.seed = 1, .step = 8, .pos = 3}},
              {{.seed = 2, .pos = 2}, {.seed = 1, .step = 8, .pos = 3}, {.seed = 1, .pos = 1}});
  EXPECT_EQ(result.n_pairs, 3U);
  EXPECT_EQ(result.n_equal, 3U);
  EXPECT_FALSE(result.is_in_order);
  EXPECT_FALSE(result.first);
}

TEST_F(PlanComparisonTest, SeveralPlansOfOneStepArePairedByTheirOrder) {
  const PlanComparison result = Compare({{.pos = 1}, {.pos = 2}}, {{.pos = 1}, {.pos = 2}});
  EXPECT_EQ(result.n_equal, 2U);
}

TEST_F(PlanComparisonTest, TellsTheFirstObservationThatDiffers) {
  const PlanComparison result =
      Compare({{.seed = 1, .pos = 1}, {.seed = 1, .step = 8, .pos = 3}},
              {{.seed = 1, .pos = 1}, {.seed = 1, .step = 8, .pos = 1.5, .action = 7}});
  ASSERT_TRUE(result.first);
  EXPECT_EQ(result.n_equal, 1U);
  EXPECT_EQ(result.first->step, 8U);
  EXPECT_EQ(result.first->field, "obs.pos[0, 1]");
  EXPECT_EQ(result.first->a, "3");
  EXPECT_EQ(result.first->b, "1.5");
  EXPECT_EQ(result.first->n_different, 1U);
  EXPECT_EQ(result.first->n_elements, 2U);
  EXPECT_EQ(result.first->largest, 1.5);
  EXPECT_EQ(result.first->explanation, "B is 0.5 times A");
}

TEST_F(PlanComparisonTest, TellsAnAnswerThatDiffersAndItsFault) {
  const PlanComparison result =
      Compare({{.action = 2}}, {{.action = 3, .fault = "policy_timeout: none"}});
  ASSERT_TRUE(result.first);
  EXPECT_EQ(result.first->field, "action[0, 1]");
  EXPECT_EQ(result.first->explanation, "policy_timeout: none");
}

TEST_F(PlanComparisonTest, WithoutACommonSeedPairsByOrder) {
  const PlanComparison result = Compare({{.seed = 1, .pos = 1}}, {{.seed = 2, .pos = 1}});
  EXPECT_TRUE(result.is_in_order);
  EXPECT_EQ(result.n_equal, 1U);
}

TEST_F(PlanComparisonTest, RefusesAnEmptyRecord) {
  EXPECT_THAT([&] { Compare({}, {{.pos = 1}}); }, ThrowsMessage<Error>(HasSubstr("has no plans")));
}

}  // namespace
}  // namespace dp_bench::compare
