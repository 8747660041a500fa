// Calls that an env must refuse: of the wrong size, with NaN, or in the wrong order. They run in a
// process of their own (wrong_calls.h). The host's guard refuses them too; an env that refuses them
// itself can be used and tested without the host.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "dp_bench/error.h"
#include "env_conformance.h"
#include "support/error_of.h"

namespace dp_bench::conformance {
namespace {

TEST(WrongCalls, NothingWorksBeforeReset) {
  const auto env = MakeBareEnv();
  const ObsMemory obs(env->spec());
  RgbImage frame(8, 8);
  EXPECT_EQ(CodeOf([&] { env->Step(ActionAt(env->spec(), kSeed, 0)); }), ErrorCode::kEnv);
  EXPECT_EQ(CodeOf([&] { env->Observe(obs.writer()); }), ErrorCode::kEnv);
  EXPECT_EQ(CodeOf([&] { env->Render(&frame); }), ErrorCode::kEnv);
}

TEST(WrongCalls, RefusedActionsThrowAndChangeNothing) {
  const auto env = MakeBareEnv();
  const Trace wanted = PlayEpisode(*env, kSeed);
  env->Reset(kSeed);
  const std::vector<float> good = ActionAt(env->spec(), kSeed, 0);
  for (const std::size_t size : {std::size_t{0}, good.size() - 1, good.size() + 1}) {
    const std::vector<float> wrong(size, good[0]);
    EXPECT_EQ(CodeOf([&] { env->Step(wrong); }), ErrorCode::kShape) << size << " numbers";
  }
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> wrong = good;
      wrong[i] = bad;
      EXPECT_EQ(CodeOf([&] { env->Step(wrong); }), ErrorCode::kNumeric) << "number " << i;
    }
  }
  Trace found;
  AddView(*env, 0, found);
  const Trace rest = Play(*env, kSeed);
  found.Append(rest);
  EXPECT_TRUE(AreEqual(found, wanted));
}

TEST(WrongCalls, StepAfterTerminatedThrows) {
  const auto env = MakeBareEnv();
  bool terminated = false;
  for (std::uint64_t seed = 0; seed < 10 && !terminated; ++seed) {
    env->Reset(seed);
    for (int step = 0; step < env->spec().max_steps && !terminated; ++step) {
      terminated = env->Step(ActionAt(env->spec(), seed, step)).terminated;
    }
  }
  if (!terminated) GTEST_SKIP() << "random actions ended no episode";
  EXPECT_EQ(CodeOf([&] { env->Step(ActionAt(env->spec(), kSeed, 0)); }), ErrorCode::kEnv);
  env->Reset(kSeed);
  EXPECT_NO_THROW(env->Step(ActionAt(env->spec(), kSeed, 0)));
}

TEST(WrongCalls, RefusesAStateThatIsNone) {
  const auto env = MakeBareEnv();
  StateAccess* const access = env->state_access();
  if (access == nullptr) GTEST_SKIP() << "the env has no state_access";
  env->Reset(kSeed);
  std::vector<double> state(env->spec().abilities.state_size);
  access->GetState(state);
  state[0] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(CodeOf([&] { access->SetState(state); }), ErrorCode::kEnv);
  const std::vector<double> long_state(state.size() + 1);
  EXPECT_EQ(CodeOf([&] { access->SetState(long_state); }), ErrorCode::kEnv);
}

TEST(WrongCalls, MarksRefuseWrongSizesAndWhatIsBeforeReset) {
  const auto env = MakeBareEnv();
  const PictureMarks* const marks = env->picture_marks();
  if (marks == nullptr) GTEST_SKIP() << "the env has no picture_marks";
  std::vector<float> action = ActionAt(env->spec(), kSeed, 0);
  std::vector<float> xy(2 * static_cast<std::size_t>(env->spec().abilities.n_marks));
  EXPECT_EQ(CodeOf([&] { marks->StateMarks(40, 30, xy); }), ErrorCode::kEnv);
  EXPECT_EQ(CodeOf([&] { marks->ActionMarks(action, 40, 30, xy); }), ErrorCode::kEnv);
  env->Reset(kSeed);
  action.push_back(0.0F);
  EXPECT_EQ(CodeOf([&] { marks->ActionMarks(action, 40, 30, xy); }), ErrorCode::kShape);
  xy.push_back(0.0F);
  EXPECT_EQ(CodeOf([&] { marks->StateMarks(40, 30, xy); }), ErrorCode::kShape);
}

}  // namespace
}  // namespace dp_bench::conformance
