// The contract of an env's optional abilities. An env without them passes.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "dp_bench/error.h"
#include "env_conformance.h"
#include "support/error_of.h"

namespace dp_bench::conformance {
namespace {

/// The action of the expert; nothing if it cannot continue.
std::optional<std::vector<float>> TryAct(Env& env) {
  std::vector<float> action(env.spec().action_low.size(), std::numeric_limits<float>::quiet_NaN());
  try {
    env.Act(action);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kEnv) << error.what();
    return std::nullopt;
  }
  return action;
}

/// An episode of the expert, including its actions.
struct ExpertTrace {
  std::vector<std::vector<float>> actions;
  Trace trace;
};

ExpertTrace PlayExpert(Env& env, std::uint64_t seed, int n_steps = kSteps) {
  ExpertTrace played;
  env.Reset(seed);
  env.BeginExpert(seed);
  AddView(env, 0, played.trace);
  for (int step = 0; step < n_steps; ++step) {
    const std::optional<std::vector<float>> action = TryAct(env);
    if (!action) break;
    played.actions.push_back(*action);
    played.trace.Add("the expert's action " + std::to_string(step + 1), action->data(),
                     action->size() * sizeof(float));
    const bool terminated = env.Step(*action).terminated;
    AddView(env, step + 1, played.trace);
    if (terminated) break;
  }
  return played;
}

TEST(ExpertConformance, EqualSeedsGiveEqualEpisodes) {
  const auto env = MakeEnv();
  if (!env->spec().abilities.has_expert) GTEST_SKIP() << "the env has no expert";
  const ExpertTrace wanted = PlayExpert(*env, kSeed);
  PlayExpert(*env, kSeed + 1, kSteps / 4);
  EXPECT_TRUE(AreEqual(PlayExpert(*env, kSeed).trace, wanted.trace)) << "the same instance, later";
  ExpertTrace found;
  std::thread([&found] { found = PlayExpert(*MakeEnv(), kSeed); }).join();
  EXPECT_TRUE(AreEqual(found.trace, wanted.trace)) << "another instance, on another thread";
}

TEST(ExpertConformance, ActionsAreFiniteAndWithinTheirBounds) {
  const auto env = MakeEnv();
  if (!env->spec().abilities.has_expert) GTEST_SKIP() << "the env has no expert";
  const EnvSpec& spec = env->spec();
  for (std::uint64_t seed = kSeed; seed < kSeed + 3; ++seed) {
    const ExpertTrace played = PlayExpert(*env, seed);
    ASSERT_FALSE(played.actions.empty()) << "seed " << seed << ": no way on from the start";
    for (std::size_t step = 0; step < played.actions.size(); ++step) {
      for (std::size_t i = 0; i < spec.action_low.size(); ++i) {
        const float value = played.actions[step][i];
        ASSERT_TRUE(value >= spec.action_low[i] && value <= spec.action_high[i])
            << value << " in dimension " << i << ", seed " << seed << ", step " << step;
      }
    }
  }
}

TEST(ExpertConformance, ActChangesNothingInTheEnv) {
  const auto env = MakeEnv();
  if (!env->spec().abilities.has_expert) GTEST_SKIP() << "the env has no expert";
  const ExpertTrace wanted = PlayExpert(*env, kSeed);
  // the same actions without an expert
  env->Reset(kSeed);
  Trace found;
  AddView(*env, 0, found);
  int step = 0;
  for (const std::vector<float>& action : wanted.actions) {
    found.Add("the expert's action " + std::to_string(step + 1), action.data(),
              action.size() * sizeof(float));
    const bool terminated = env->Step(action).terminated;
    AddView(*env, ++step, found);
    if (terminated) break;
  }
  EXPECT_TRUE(AreEqual(found, wanted.trace));
}

// Without a success, `collect` would give up after many episodes.
TEST(ExpertConformance, SucceedsAtLeastOnce) {
  const auto env = MakeEnv();
  if (!env->spec().abilities.has_expert) GTEST_SKIP() << "the env has no expert";
  std::vector<float> action(env->spec().action_low.size());
  const std::uint64_t end = kSeed + static_cast<std::uint64_t>(NumExpertSeeds());
  for (std::uint64_t seed = kSeed; seed < end; ++seed) {
    env->Reset(seed);
    env->BeginExpert(seed);
    for (int step = 0; step < env->spec().max_steps; ++step) {
      env->Act(action);
      const StepResult result = env->Step(action);
      if (result.success) return;
      if (result.terminated) break;
    }
  }
  FAIL() << "expected the expert to succeed in one of " << NumExpertSeeds() << " episodes of up to "
         << env->spec().max_steps << " steps, found no step that reported `success`. More "
         << R"(episodes: {"conformance": {"expert_seeds": N}} in conformance.json)";
}

TEST(PointerConformance, ActionsAreFiniteAndWithinTheirBoundsAndRepeat) {
  const auto env = MakeEnv();
  if (!env->spec().abilities.has_pointer_control) GTEST_SKIP() << "the env has no pointer control";
  const EnvSpec& spec = env->spec();
  env->Reset(kSeed);
  for (const double x : {0.0, 0.3, 1.0}) {
    for (const double y : {0.0, 0.7, 1.0}) {
      std::vector<float> action(spec.action_low.size(), std::numeric_limits<float>::quiet_NaN());
      std::vector<float> again = action;
      env->PointerAction(x, y, action);
      env->PointerAction(x, y, again);
      EXPECT_EQ(action, again);
      for (std::size_t i = 0; i < action.size(); ++i) {
        EXPECT_TRUE(action[i] >= spec.action_low[i] && action[i] <= spec.action_high[i])
            << action[i] << " in dimension " << i << " at " << x << ", " << y;
      }
    }
  }
}

TEST(PointerConformance, PointingChangesNothing) {
  const auto env = MakeEnv();
  if (!env->spec().abilities.has_pointer_control) GTEST_SKIP() << "the env has no pointer control";
  const Trace wanted = PlayEpisode(*env, kSeed);
  env->Reset(kSeed);
  Trace found;
  AddView(*env, 0, found);
  std::vector<float> action(env->spec().action_low.size());
  env->PointerAction(0.9, 0.1, action);
  const Trace rest = Play(*env, kSeed);
  found.Append(rest);
  EXPECT_TRUE(AreEqual(found, wanted));
}

TEST(CameraConformance, NamesAreUnique) {
  const auto env = MakeEnv();
  if (env->spec().abilities.cameras.empty()) GTEST_SKIP() << "the env has no cameras";
  std::set<std::string> names;
  for (const std::string& name : env->spec().abilities.cameras) {
    EXPECT_FALSE(name.empty());
    EXPECT_TRUE(names.insert(name).second) << name << " occurs twice";
  }
}

// A rotation and a translation in rows of a homogeneous matrix.
void ExpectPose(const std::array<double, 16>& pose) {
  constexpr double kTolerance = 1e-6;
  for (std::size_t row = 0; row < 3; ++row) {
    EXPECT_TRUE(std::isfinite(pose[4 * row + 3]));
    for (std::size_t other = 0; other < 3; ++other) {
      double dot = 0.0;
      for (std::size_t i = 0; i < 3; ++i) dot += pose[4 * row + i] * pose[4 * other + i];
      EXPECT_NEAR(dot, row == other ? 1.0 : 0.0, kTolerance) << "rows " << row << ", " << other;
    }
  }
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(pose[12 + i], i == 3 ? 1.0 : 0.0);
}

TEST(CameraConformance, ParametersDescribeAPinholeCameraOfTheGivenSize) {
  const auto env = MakeEnv();
  if (env->spec().abilities.cameras.empty()) GTEST_SKIP() << "the env has no cameras";
  EXPECT_EQ(CodeOf([&] { env->GetCamera(0, 64, 48); }), ErrorCode::kEnv) << "before Reset";
  env->Reset(kSeed);
  for (int camera = 0; camera < static_cast<int>(env->spec().abilities.cameras.size()); ++camera) {
    const CameraParameters small = env->GetCamera(camera, 64, 48);
    const CameraParameters large = env->GetCamera(camera, 128, 96);
    EXPECT_EQ(small.name, env->spec().abilities.cameras[static_cast<std::size_t>(camera)]);
    for (const double value : {small.fx, small.fy, small.cx, small.cy}) {
      EXPECT_TRUE(std::isfinite(value) && value > 0.0) << small.name << ": " << value;
    }
    EXPECT_NEAR(large.fx, 2.0 * small.fx, 1e-9 * large.fx) << small.name;
    EXPECT_NEAR(large.fy, 2.0 * small.fy, 1e-9 * large.fy) << small.name;
    ExpectPose(small.camera_to_world);
  }
}

TEST(CameraConformance, ImagesRepeatAndChangeNothing) {
  const auto env = MakeEnv();
  if (env->spec().abilities.cameras.empty()) GTEST_SKIP() << "the env has no cameras";
  const Trace wanted = PlayEpisode(*env, kSeed);
  env->Reset(kSeed);
  Trace found;
  AddView(*env, 0, found);
  for (int camera = 0; camera < static_cast<int>(env->spec().abilities.cameras.size()); ++camera) {
    RgbImage first(48, 32);
    RgbImage second(48, 32);
    env->RenderCamera(camera, &first);
    env->RenderCamera(camera, &second);
    EXPECT_EQ(first.pixels, second.pixels) << "camera " << camera;
  }
  const Trace rest = Play(*env, kSeed);
  found.Append(rest);
  EXPECT_TRUE(AreEqual(found, wanted));
}

// Visible marks are inside the image; otherwise both numbers are NaN.
void ExpectMarks(std::span<const float> xy, const char* of) {
  for (std::size_t i = 0; i < xy.size(); i += 2) {
    const bool is_hidden = std::isnan(xy[i]) && std::isnan(xy[i + 1]);
    const bool is_inside = xy[i] >= 0.0F && xy[i] <= 1.0F && xy[i + 1] >= 0.0F && xy[i + 1] <= 1.0F;
    EXPECT_TRUE(is_hidden || is_inside)
        << "mark " << i / 2 << " of " << of << ": " << xy[i] << ", " << xy[i + 1];
  }
}

TEST(MarksConformance, LieInTheImageOrAreHidden) {
  const auto env = MakeEnv();
  if (env->spec().abilities.n_marks == 0) GTEST_SKIP() << "the env has no marks";
  std::vector<float> xy(2 * static_cast<std::size_t>(env->spec().abilities.n_marks));
  env->Reset(kSeed);
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<float> action = ActionAt(env->spec(), kSeed, step);
    for (const int width : {40, 96}) {
      env->Marks({}, width, 30, xy);
      ExpectMarks(xy, "the state");
      env->Marks(action, width, 30, xy);
      ExpectMarks(xy, "an action");
    }
    if (env->Step(action).terminated) break;
  }
}

TEST(MarksConformance, AskingRepeatsAndChangesNothing) {
  const auto env = MakeEnv();
  if (env->spec().abilities.n_marks == 0) GTEST_SKIP() << "the env has no marks";
  const Trace wanted = PlayEpisode(*env, kSeed);
  const std::size_t n_numbers = 2 * static_cast<std::size_t>(env->spec().abilities.n_marks);
  env->Reset(kSeed);
  Trace found;
  AddView(*env, 0, found);
  for (int step = 0; step < wanted.n_steps; ++step) {
    const std::vector<float> action = ActionAt(env->spec(), kSeed, step);
    std::vector<float> first(2 * n_numbers);
    std::vector<float> second = first;
    for (std::vector<float>* seen : {&first, &second}) {
      env->Marks({}, 40, 30, std::span(*seen).first(n_numbers));
      // a distant action, so that executing it in the simulation would show
      env->Marks(ActionAt(env->spec(), kSeed + 1, step), 40, 30, std::span(*seen).last(n_numbers));
    }
    EXPECT_EQ(std::memcmp(first.data(), second.data(), first.size() * sizeof(float)), 0);
    const Trace rest = Play(*env, kSeed, step, step + 1);
    found.Append(rest);
  }
  EXPECT_TRUE(AreEqual(found, wanted));
}

}  // namespace
}  // namespace dp_bench::conformance
