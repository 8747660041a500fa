// perturbations.json, there and back.
#include "run/perturbation_effects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "run/run_folder.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::run {
namespace {

TEST(PerturbationEffects, AreReadBackAsTheyWere) {
  constexpr double kOpen = std::numeric_limits<double>::infinity();
  const ScratchFolder scratch;
  const RunFolder control = {.path = scratch.path()};
  EXPECT_FALSE(control.ReadEffects());
  WriteEffects(control.path, {.control = {.n_episodes = 1, .success_rate = 0.5},
                              .arms = {{.name = "delay=3",
                                        .kind = "delay",
                                        .strength = 3.0,
                                        .note = "a note",
                                        .folder = "perturbations/delay=3",
                                        .success_rate = {-0.5, -0.75, 0.25},
                                        .score = {0.125, -kOpen, kOpen},
                                        .p_mcnemar = 0.5,
                                        .p_holm = 0.75,
                                        .n_changed = 1},
                                       {.name = "null"}}});
  const std::optional<PerturbationEffects> read = control.ReadEffects();
  ASSERT_TRUE(read && read->arms.size() == 2);
  EXPECT_EQ(read->control.success_rate, 0.5);
  const PerturbedArm& arm = read->arms[0];
  EXPECT_EQ(arm.strength, 3.0);
  EXPECT_EQ(arm.folder, "perturbations/delay=3");
  EXPECT_EQ(arm.success_rate.low, -0.75);
  EXPECT_EQ(arm.p_holm, 0.75);
  EXPECT_EQ(arm.score.difference, 0.125);
  EXPECT_FALSE(std::isfinite(arm.score.low));
  EXPECT_EQ(arm.n_changed, 1);
  EXPECT_EQ(read->arms[1].n_changed, std::nullopt);
  EXPECT_THAT(MessageOf(ErrorCode::kData, [] { ParseEffects("{}", "a/perturbations.json"); }),
              testing::HasSubstr("a/perturbations.json"));
}

}  // namespace
}  // namespace dp_bench::run
