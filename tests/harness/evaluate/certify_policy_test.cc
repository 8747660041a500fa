// The certificate of a policy: faults of policy servers that others met, planted.
#include "evaluate/certify_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "control/obs_history.h"
#include "support/error_of.h"

namespace dp_bench::evaluate {
namespace {

using testing::HasSubstr;

const PolicySpec kAsked{.shape_meta = {.obs = {{.name = "pos", .shape = {1}}},
                                       .action = {.name = "action", .shape = {2}}},
                        .horizons = {.horizon = 4, .n_obs_steps = 1, .n_action_steps = 2}};

// Row i: its observation and its seed, changed by `fault`.
class FaultyPlanner final : public control::ChunkPlanner {
 public:
  using Fault = std::function<void(std::span<const control::PlanRow>, std::span<float>)>;
  explicit FaultyPlanner(Fault fault = {}) : fault_(std::move(fault)) {}

  int batch_size() const override { return 4; }
  void Plan(const control::ObsBatch& obs, std::span<const control::PlanRow> rows,
            std::span<float> actions) override {
    const auto pos = obs.at("pos").as<float>();
    for (std::size_t row = 0; row < rows.size(); ++row) {
      for (std::size_t i = 0; i < 4; ++i) {
        actions[row * 4 + i] = pos[row] + static_cast<float>(rows[row].seed % 1000) / 10.0F;
      }
    }
    if (fault_) fault_(rows, actions);
  }
  std::string FaultOf(std::size_t /*row*/) const override { return row_fault_; }

  void SetFault(Fault fault) { fault_ = std::move(fault); }

  std::string row_fault_;

 private:
  Fault fault_;
};

std::vector<control::RecordedObs> Rows() {
  std::vector<control::RecordedObs> rows;
  for (const float pos : {1.0F, 2.0F}) {
    rows.push_back({.obs = control::MakeObsBatch(kAsked.shape_meta.obs, 1, 1),
                    .row = {.seed = static_cast<std::uint64_t>(pos)}});
    rows.back().obs.at("pos").as<float>()[0] = pos;
  }
  return rows;
}

// The first difference, whose fields are empty if there is none.
run::SeedDifference Certify(FaultyPlanner::Fault fault) {
  FaultyPlanner planner(std::move(fault));
  return CertifyPolicy(planner, kAsked, Rows()).difference.value_or(run::SeedDifference{});
}

TEST(PolicyCertificates, VerifyAFunctionOfObservationAndSeed) {
  EXPECT_EQ(Certify({}).condition, "");
}

TEST(PolicyCertificates, NameARandomPolicy) {
  int n = 0;
  const auto difference =
      Certify([&](auto, std::span<float> actions) { actions[3] += static_cast<float>(++n); });
  EXPECT_EQ(difference.condition, "the policy asked again");
  EXPECT_EQ(difference.step, 1);
  EXPECT_EQ(difference.key, "action[1]");
}

TEST(PolicyCertificates, NameStateThatOthersLeave) {
  std::uint64_t last = 1;  // the seed of the last question
  const auto difference = Certify([&](auto rows, std::span<float> actions) {
    if (last != rows[0].seed) actions[0] += 1.0F;
    last = rows[0].seed;
  });
  EXPECT_EQ(difference.condition, "the policy asked after others");
}

// Its sessions count their steps, and a reset of one resets all.
TEST(PolicyCertificates, NameAResetThatOthersFeel) {
  std::map<std::uint64_t, float> n_steps;
  const auto difference = Certify([&](auto rows, std::span<float> actions) {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (rows[row].env_step == 0) n_steps.clear();
      actions[row * 4] += n_steps[rows[row].seed]++;
    }
  });
  EXPECT_EQ(difference.condition, "the policy asked after the reset of another");
}

// It plays one episode at a time, and refuses to go on with another.
TEST(PolicyCertificates, AllowAPolicyThatRefusesToContinue) {
  FaultyPlanner planner;
  FaultyPlanner* const asked = &planner;
  std::uint64_t playing = 0;
  planner.SetFault([&, asked](auto rows, std::span<float>) {
    if (rows[0].env_step == 0) playing = rows[0].seed;
    asked->row_fault_ = rows[0].seed == playing ? "" : "policy_error: one at a time";
  });
  EXPECT_FALSE(CertifyPolicy(planner, kAsked, Rows()).difference.has_value());
}

TEST(PolicyCertificates, DoNotInterleaveEpisodesOfAPolicyThatSaysThatItPlaysOne) {
  int n_refusals = 0;
  std::uint64_t playing = 0;
  FaultyPlanner planner([&](auto rows, std::span<float>) {
    for (const control::PlanRow& row : rows) {
      if (row.env_step == 0) playing = row.seed;
      n_refusals += row.seed == playing ? 0 : 1;
    }
  });
  EXPECT_FALSE(
      CertifyPolicy(planner, kAsked, Rows(), /*plays_one_episode=*/true).difference.has_value());
  EXPECT_EQ(n_refusals, 0);
}

TEST(PolicyCertificates, KnowFromTheServerThatItPlaysOneEpisode) {
  EXPECT_TRUE(PlaysOneEpisode(R"({"metadata": {"dp_bench": {"one_episode": true}}})"));
  EXPECT_FALSE(PlaysOneEpisode(R"({"metadata": {"dp_bench": {"one_episode": false}}})"));
  EXPECT_FALSE(PlaysOneEpisode(R"({"metadata": {"dp_bench": 1}, "url": "ws://127.0.0.1:8000"})"));
  EXPECT_FALSE(PlaysOneEpisode("[]"));
  EXPECT_FALSE(PlaysOneEpisode(""));
}

TEST(PolicyCertificates, TakeNoSilenceForARefusalToContinue) {
  FaultyPlanner planner;
  FaultyPlanner* const asked = &planner;
  planner.SetFault([asked](auto rows, std::span<float>) {
    asked->row_fault_ = rows[0].env_step == 0 ? "" : "policy_timeout: no answer";
  });
  EXPECT_THAT(MessageOf(ErrorCode::kEnv, [&] { CertifyPolicy(planner, kAsked, Rows()); }),
              HasSubstr("policy_timeout: no answer"));
}

TEST(PolicyCertificates, NameABatchThatMatters) {
  const auto difference = Certify([](auto rows, std::span<float> actions) {
    for (float& action : actions) action += 1e-6F * static_cast<float>(rows.size());
  });
  EXPECT_EQ(difference.condition, "the policy asked beside others");
}

TEST(PolicyCertificates, NameAPlaceThatMatters) {
  const auto difference = Certify([](auto rows, std::span<float> actions) {
    actions[(rows.size() - 1) * 4] += rows.size() > 1 ? 1.0F : 0.0F;
  });
  EXPECT_EQ(difference.condition, "the policy asked beside others, as the last");
}

// https://github.com/huggingface/lerobot/issues/4327: all sessions share one queue of actions, so
// an episode gets the actions of another one.
TEST(PolicyCertificates, NameAQueueThatSessionsShare) {
  std::deque<std::vector<float>> queue;
  const auto difference = Certify([&](auto rows, std::span<float> actions) {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const auto chunk = actions.subspan(row * 4, 4);
      if (queue.empty()) {
        queue.emplace_back(chunk.begin(), chunk.end());
        queue.emplace_back(chunk.begin(), chunk.end());
      }
      std::ranges::copy(queue.front(), chunk.begin());
      queue.pop_front();
    }
  });
  EXPECT_EQ(difference.condition, "the policy asked after others");
}

TEST(PolicyCertificates, PassOnThatThereIsNoAnswer) {
  FaultyPlanner planner;
  planner.row_fault_ = "policy_timeout: nobody is there";
  EXPECT_THAT(MessageOf(ErrorCode::kEnv, [&] { CertifyPolicy(planner, kAsked, Rows()); }),
              HasSubstr("policy_timeout: nobody is there"));
}

TEST(PolicyCertificates, BecomeThoseOfARun) {
  FaultyPlanner planner(
      [n = 0.0F](auto, std::span<float> actions) mutable { actions[0] = n += 1; });
  const run::DeterminismCertificate certificate = CertifyPolicy(planner, kAsked, Rows());
  EXPECT_THAT(run::Describe(certificate),
              HasSubstr("outcomes are not a function of the seed: the policy asked again, step 0 "
                        "first differs in 'action[0]'"));
}

TEST(Seeds, OfTwoSplitsAreNotSharedWhereAServerRemembersEpisodes) {
  const std::string with_memory = R"({"metadata": {}, "stateful": true})";
  control::EnvRunnerConfig config = {.n_train = 6, .n_test = 50, .test_start_seed = 5};
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { RequireSeedsApart(config, with_memory); }),
              HasSubstr("the splits share seeds (train 0 to 5, test 5 to 54)"));
  RequireSeedsApart(config, "");
  RequireSeedsApart(config, R"({"metadata": {}})");
  config.n_envs = 1;
  RequireSeedsApart(config, with_memory);
  config.n_envs = 0;
  config.test_start_seed = 6;
  RequireSeedsApart(config, with_memory);
  config = {.n_train = 0, .test_start_seed = 0};
  RequireSeedsApart(config, with_memory);
}

}  // namespace
}  // namespace dp_bench::evaluate
