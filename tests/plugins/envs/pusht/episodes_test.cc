// Episodes of gym-pusht (tests/golden/generate/pusht_episodes.py) replayed in our env: the recorded
// start, the recorded actions, and every state, coverage and last image compared.
//
// pymunk remembers the impulses of contacts for three substeps; PushtPhysics keeps nothing but the
// state. The difference shows in two situations:
// - The agent loses the block and touches it again while it draws back. pymunk still counts the old
//   impulse, so the contact can pull on the block (cases return_*).
// - The agent squeezes the block against a wall. No velocity satisfies both contacts. The result
//   depends on the impulses of the substep before and on the order of the contacts (cases wall_*).
// "Forgetful" recordings are the same episodes in a pymunk that forgets before each substep.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "make_env.h"
#include "pusht_physics.h"
#include "support/golden.h"

namespace dp_bench::pusht {
namespace {

// Limits in pixels; measured values are in docs/benchmarks.md.
constexpr double kExact = 1e-9;
// one contact or two of the agent: rounding, which contacts amplify a little (measured: 1.2e-6)
constexpr double kContactLimit = 1e-5;
// Box2D sees world coordinates at walls, in float32, whose step is 3e-5 px there (measured: 4e-6)
constexpr double kWallLimit = 1e-4;
constexpr double kNone = -1.0;

const ArrayMap& Episodes() { return Golden("pusht_episodes").tensors; }

struct EpisodeKind {
  const char* name;  // its cases begin with it
  std::size_t n_cases;
  double limit;            // of the block's error, in the whole episode
  double forgetful_limit;  // the same against pymunk without its memory
};

std::vector<std::string> CasesOf(const EpisodeKind& kind) {
  const std::string prefix = std::string(kind.name) + "_";
  const std::string suffix = ".state";
  std::vector<std::string> cases;
  for (const auto& [name, array] : Episodes()) {
    if (name.starts_with(prefix) && name.ends_with(suffix)) {
      cases.push_back(name.substr(0, name.size() - suffix.size()));
    }
  }
  return cases;
}

std::size_t StepsOf(const std::string& name) {
  return static_cast<std::size_t>(Episodes().at(name + ".coverage").shape()[0]);
}

std::span<const double> RecordedState(const std::string& name, std::size_t step) {
  return Episodes().at(name + ".state").as<double>().subspan(10 * step, 10);
}

/// How far apart two block poses (x, y, angle) are: of the origin, or of a point 60 px from it.
double PoseError(std::span<const double> a, std::span<const double> b) {
  return std::max(std::hypot(a[0] - b[0], a[1] - b[1]), 60.0 * std::abs(a[2] - b[2]));
}

struct ReplayErrors {
  double agent = 0.0;
  double block = 0.0;
  double block_before_squeeze = 0.0;  // before agent and walls touch the block at once
  double velocity = 0.0;              // what it moves the block in a substep
  double coverage = 0.0;
  double forgetful_block = 0.0;
  int different_pixels = 0;  // in the last image

  void Include(const ReplayErrors& other) {
    agent = std::max(agent, other.agent);
    block = std::max(block, other.block);
    block_before_squeeze = std::max(block_before_squeeze, other.block_before_squeeze);
    velocity = std::max(velocity, other.velocity);
    coverage = std::max(coverage, other.coverage);
    forgetful_block = std::max(forgetful_block, other.forgetful_block);
    different_pixels = std::max(different_pixels, other.different_pixels);
  }
};

int DifferentPixels(PushtEnv& env, const std::string& name) {
  const auto background = Episodes().at("background").as<std::uint8_t>();
  const auto pixels = Episodes().at(name + ".pixel").as<std::uint16_t>();
  const auto colours = Episodes().at(name + ".colour").as<std::uint8_t>();
  std::vector<std::uint8_t> wanted(background.begin(), background.end());
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    std::copy_n(&colours[3 * i], 3, &wanted[std::size_t{3} * pixels[i]]);
  }
  std::vector<std::uint8_t> image(wanted.size());
  const std::vector<std::span<std::byte>> views = {std::as_writable_bytes(std::span(image))};
  env.Observe({env.spec().shape_meta.obs, views});
  int count = 0;
  for (std::size_t i = 0; i < image.size(); i += 3) {
    count += std::equal(&image[i], &image[i] + 3, &wanted[i]) ? 0 : 1;
  }
  return count;
}

ReplayErrors ReplayCase(const std::string& name) {
  const auto actions = Episodes().at(name + ".action").as<float>();
  const auto coverages = Episodes().at(name + ".coverage").as<double>();
  const auto contacts = Episodes().at(name + ".contacts").as<std::uint8_t>();
  const auto forgetful = Episodes().find(name + ".forgetful");

  PushtEnv env = Make(R"({"obs": ["image"]})");
  env.SetState(RecordedState(name, 0));
  std::vector<double> state(PushtEnv::kStateSize);
  const std::span<const double> block = std::span(state).subspan(4, 3);
  ReplayErrors worst;
  bool was_squeezed = false;
  for (std::size_t t = 0; t < coverages.size(); ++t) {
    const StepResult result = env.Step(actions.subspan(2 * t, 2));
    env.GetState(state);
    if (result.terminated) env.SetState(state);  // the recording continues past success

    const std::span<const double> wanted = RecordedState(name, t + 1);
    was_squeezed = was_squeezed || contacts[3 * t + 2] != 0;
    ReplayErrors now;
    now.agent = std::max(std::hypot(state[0] - wanted[0], state[1] - wanted[1]),
                         kSubstep * std::hypot(state[2] - wanted[2], state[3] - wanted[3]));
    now.block = PoseError(block, wanted.subspan(4, 3));
    if (!was_squeezed) now.block_before_squeeze = now.block;
    now.velocity = kSubstep * PoseError(std::span(state).subspan(7, 3), wanted.subspan(7, 3));
    now.coverage = std::abs(result.metrics[0] - coverages[t]);
    if (forgetful != Episodes().end()) {
      now.forgetful_block = PoseError(block, forgetful->second.as<double>().subspan(3 * t + 3, 3));
    }
    worst.Include(now);
  }
  worst.different_pixels = DifferentPixels(env, name);
  return worst;
}

class PushtEpisodes : public testing::TestWithParam<EpisodeKind> {};

TEST_P(PushtEpisodes, FollowGymPusht) {
  const EpisodeKind& kind = GetParam();
  const std::vector<std::string> cases = CasesOf(kind);
  EXPECT_EQ(cases.size(), kind.n_cases);
  ReplayErrors worst;
  std::size_t steps = 0;
  for (const std::string& name : cases) {
    SCOPED_TRACE(name);
    const ReplayErrors errors = ReplayCase(name);
    EXPECT_LE(errors.agent, kExact);
    EXPECT_LE(errors.block, kind.limit);
    if (name.starts_with("wall")) {
      EXPECT_LE(errors.block_before_squeeze, kWallLimit);
    }
    EXPECT_LE(errors.velocity, kind.limit);
    // moving the T by one pixel changes at most 3.6 % of its area
    EXPECT_LE(errors.coverage, 0.05 * kind.limit + 1e-9);
    EXPECT_LE(errors.forgetful_block, kind.forgetful_limit == kNone ? 0.0 : kind.forgetful_limit);
    if (kind.limit <= kContactLimit) {
      EXPECT_EQ(errors.different_pixels, 0);
    }
    worst.Include(errors);
    steps += StepsOf(name);
  }
  std::printf(
      "%s: %zu episodes, %zu steps; worst error of the block %.1e px, before a squeeze %.1e px, "
      "without pymunk's memory %.1e px; of the coverage %.1e\n",
      kind.name, cases.size(), steps, worst.block, worst.block_before_squeeze,
      worst.forgetful_block, worst.coverage);
}

// The limits of squeezes (touch, press, force) are twice what was measured. They guard against
// changes and promise nothing; up to the squeeze the limit is kWallLimit.
INSTANTIATE_TEST_SUITE_P(Of, PushtEpisodes,
                         testing::Values(EpisodeKind{"free", 6, kExact, kNone},
                                         EpisodeKind{"push", 12, kContactLimit, kNone},
                                         EpisodeKind{"random", 12, kContactLimit, kNone},
                                         EpisodeKind{"fast", 6, kContactLimit, kNone},
                                         EpisodeKind{"corner", 6, kContactLimit, kNone},
                                         EpisodeKind{"return_slow", 4, 0.04, kContactLimit},
                                         EpisodeKind{"return_fast", 4, 5.0, kContactLimit},
                                         EpisodeKind{"wall_slide", 4, kWallLimit, kWallLimit},
                                         EpisodeKind{"wall_lean", 4, 0.5, kWallLimit},
                                         EpisodeKind{"wall_touch", 4, 0.08, 0.7},
                                         EpisodeKind{"wall_press", 4, 17.0, 2.5},
                                         EpisodeKind{"wall_force", 4, 100.0, 9.0}),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST(PushtEpisode, EndsInGymPushtsImageUpToMarksAtWalls) {
  constexpr int kPixelsOfWallMarks = 1;  // measured; the peer marks contacts of block and wall
  std::size_t n_cases = 0;
  for (const auto& [key, array] : Episodes()) {
    if (!key.ends_with(".pixel")) continue;
    const std::string name = key.substr(0, key.find('.'));
    SCOPED_TRACE(name);
    const std::size_t steps = StepsOf(name);
    const auto contacts = Episodes().at(name + ".contacts").as<std::uint8_t>();
    const bool at_wall = contacts[3 * (steps - 1) + 1] != 0;
    PushtEnv env = Make(R"({"obs": ["image"]})");
    env.SetState(RecordedState(name, steps));
    EXPECT_LE(DifferentPixels(env, name), at_wall ? kPixelsOfWallMarks : 0);
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 70U);
}

TEST(PushtEpisode, IsResetToAStateAsGymPushtIs) {
  const auto asked = Episodes().at("reset.asked").as<double>();
  const auto states = Episodes().at("reset.state").as<double>();
  const std::size_t n = asked.size() / 5;
  ASSERT_EQ(n, 24U);
  double worst_pose = 0.0;
  double worst_velocity = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto from = asked.subspan(5 * i, 5);
    const auto wanted = states.subspan(10 * i, 10);
    // placed upright, then turned about the centre of gravity, then one substep
    const double c = std::cos(from[4]);
    const double s = std::sin(from[4]);
    PushtPhysics physics;
    physics.SetState(
        {.agent = {from[0], from[1]},
         .block = {from[2] + s * kBlockCog.y, from[3] + (1.0 - c) * kBlockCog.y, from[4]}});
    physics.Substep();
    const PushtState& state = physics.state();
    const Pose& velocity = state.block_velocity;
    EXPECT_EQ(state.agent.x, wanted[0]);
    EXPECT_EQ(state.agent.y, wanted[1]);
    const std::vector<double> pose = {state.block.x, state.block.y, state.block.angle};
    const std::vector<double> speed = {velocity.x, velocity.y, velocity.angle};
    worst_pose = std::max(worst_pose, PoseError(pose, wanted.subspan(4, 3)));
    worst_velocity = std::max(worst_velocity, kSubstep * PoseError(speed, wanted.subspan(7, 3)));
  }
  std::printf("%zu resets: worst error of the pose %.1e px, of the velocity %.1e px a substep\n", n,
              worst_pose, worst_velocity);
  EXPECT_LE(worst_pose, kExact);
  EXPECT_LE(worst_velocity, kWallLimit);
}

}  // namespace
}  // namespace dp_bench::pusht
