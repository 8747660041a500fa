// What a session hands out of its plans.
#include "serve/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace dp_bench::serve {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

PolicySpec MakeSpec(std::optional<double> ensemble_coeff) {
  PolicySpec spec;
  spec.shape_meta.obs = {{.name = "agent_pos", .shape = {2}}};
  spec.shape_meta.action = {.name = "action", .shape = {1}};
  spec.horizons = {.horizon = 3,
                   .n_obs_steps = 1,
                   .n_action_steps = 3,
                   .temporal_ensemble_coeff = ensemble_coeff};
  return spec;
}

const std::vector<float> kPlan = {1.0F, 2.0F, 3.0F};
const std::vector<float> kNextPlan = {6.0F, 7.0F, 8.0F};

TEST(Session, HandsOutTheWholePlan) {
  Session session(MakeSpec(std::nullopt));
  EXPECT_THAT(session.NextAction(), IsEmpty());
  session.SetChunk(kPlan);
  EXPECT_THAT(session.NextAction(), ElementsAre(1.0F));
  EXPECT_THAT(session.NextAction(), ElementsAre(2.0F));
  EXPECT_THAT(session.NextAction(), ElementsAre(3.0F));
  EXPECT_THAT(session.NextAction(), IsEmpty());
}

TEST(Session, WithTemporalEnsemblingEveryActionNeedsAPlan) {
  Session session(MakeSpec(0.0));
  session.SetChunk(kPlan);
  EXPECT_THAT(session.NextAction(), ElementsAre(1.0F));
  EXPECT_FALSE(session.has_action());
  session.SetChunk(kNextPlan);
  EXPECT_THAT(session.NextAction(), ElementsAre(4.0F));  // the mean of 2 and 6
  session.Reset(std::nullopt);
  session.SetChunk(kNextPlan);
  EXPECT_THAT(session.NextAction(), ElementsAre(6.0F));
}

}  // namespace
}  // namespace dp_bench::serve
