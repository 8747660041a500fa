// Start states, observations and scores of PushT. The physics is in pusht_physics.cc.
#include "pusht_env.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "coverage.h"
#include "dp_bench/config_keys.h"
#include "dp_bench/error.h"
#include "dp_bench/plugin.h"
#include "legacy_random.h"

namespace dp_bench::pusht {
namespace {

constexpr double kControlHz = 1.0 / (kSubstep * kSubstepsPerControl);
constexpr double kTwoTo32 = 4294967296.0;

/// The dataset's nine points of the block, in the block's frame. Least squares over the 25,650
/// recorded (state, keypoint) pairs: median residual 1e-5 px. 2,124 pairs were left out, because
/// the block is moving there and the recorded points lag behind by up to 2.2 px.
constexpr std::array<Point, PushtEnv::kNumKeypoints> kKeypoints = {
    Point{9.26977, 90.04100},   Point{-60.98345, -1.18673},  Point{60.91278, -1.39332},
    Point{-0.27049, 25.54365},  Point{-14.06495, 122.81587}, Point{39.00275, 32.85744},
    Point{-39.96641, 32.72966}, Point{-16.82435, 62.86320},  Point{23.54148, -1.70025},
};

/// The two halves of a seed, as in PushtEnv::GetState.
std::uint64_t SeedFrom(std::span<const double> halves) {
  for (const double half : halves) {
    if (half < 0.0 || half >= kTwoTo32 || half != std::floor(half)) {
      throw Error(ErrorCode::kEnv,
                  fmt::format("expected half of a seed at the end of the state, found {}", half));
    }
  }
  return (static_cast<std::uint64_t>(halves[0]) << 32) | static_cast<std::uint64_t>(halves[1]);
}

// Writes `numbers` as float32.
void WriteNumbers(std::span<const double> numbers, std::span<float> out) {
  std::ranges::transform(numbers, out.begin(),
                         [](double number) { return static_cast<float>(number); });
}

// What `obs` may list.
std::vector<KeySpec> ObsKeys(const MotionParams& motion) {
  std::vector<KeySpec> keys = {{.name = "agent_pos", .shape = {2}},
                               {.name = "environment_state", .shape = {16}}};
  if (motion.goal.is_given) keys.push_back({.name = "goal", .shape = {4}});
  keys.push_back({.name = "image",
                  .type = KeyType::kRgb,
                  .shape = {3, kImageSize, kImageSize},
                  .dtype = DType::kUInt8});
  keys.push_back({.name = "keypoint", .shape = {PushtEnv::kNumKeypoints, 2}});
  keys.push_back({.name = "state", .shape = {5}});
  if (motion.wind.is_given) keys.push_back({.name = "wind", .shape = {2}});
  return keys;
}

std::vector<std::string> ObsModes(const MotionParams& motion) {
  std::vector<std::string> names;
  for (const KeySpec& key : ObsKeys(motion)) names.push_back(key.name);
  return names;
}

EnvSpec SpecOf(const PushtParams& params) {
  EnvSpec spec;
  for (const KeySpec& key : ObsKeys(params.motion)) {
    if (std::ranges::count(params.obs, key.name) > 0) spec.shape_meta.obs.push_back(key);
  }
  spec.shape_meta.action = {.name = "action", .shape = {2}};
  spec.action_low = {0.0F, 0.0F};
  spec.action_high = {static_cast<float>(kWorldSize), static_cast<float>(kWorldSize)};
  spec.control_hz = kControlHz;
  spec.max_steps = params.max_steps;
  spec.moves_without_actions = params.motion.moves();
  spec.obs_modes = ObsModes(params.motion);
  if (params.motion.is_following) {
    spec.metrics = {{"distance", Aggregate::kMean}, {"held_steps", Aggregate::kMax}};
    spec.instruction = "Stay on the moving target.";
  } else {
    spec.metrics = {{"coverage", Aggregate::kMax}, {"final_coverage", Aggregate::kLast}};
    spec.instruction = "Push the T-shaped block onto the T-shaped target.";
  }
  spec.perturbations = PerturbationParams::Kinds();
  spec.abilities = {.state_size = PushtEnv::kStateSize +
                                  (params.has_draws() ? PushtEnv::kSeedSize : 0) +
                                  (params.motion.is_given() ? PushtEnv::kMotionSize : 0),
                    .has_expert = true,
                    .has_pointer_control = true,
                    .n_marks = 1};
  return spec;
}

}  // namespace

PushtState StartState(std::uint64_t seed, bool legacy_order) {
  LegacyRandomState random(seed);
  PushtState state;
  state.agent.x = static_cast<double>(random.RandInt(50, 450));
  state.agent.y = static_cast<double>(random.RandInt(50, 450));
  state.block.x = static_cast<double>(random.RandInt(100, 400));
  state.block.y = static_cast<double>(random.RandInt(100, 400));
  state.block.angle = random.Randn() * 2.0 * kPi - kPi;
  if (legacy_order) {
    // placed upright, then turned about the centre of gravity
    const Point turned = Frame(state.block).Rotated(kBlockCog);
    state.block.x += kBlockCog.x - turned.x;
    state.block.y += kBlockCog.y - turned.y;
  }
  return state;
}

PushtParams PushtParams::FromConfig(const Config& config) {
  PushtParams params;
  const ConfigKeys keys(config);
  keys("obs", &params.obs,
       "observations: agent_pos, environment_state (the corners of the block, as gym-pusht gives "
       "them), image, keypoint, state; with goal_motion also goal (its position and velocity), "
       "with wind also wind (its velocity)");
  keys("max_steps", &params.max_steps, 1, 1000000,
       "maximum number of steps of an episode, at 10 Hz");
  keys("success_threshold", &params.success_threshold, 0.01, 1.0,
       "an episode succeeds above this coverage of the goal; the score is coverage / this");
  keys("legacy", &params.legacy,
       "start as in diffusion_policy's evaluation (legacy_test); false: as in its PushTEnv");
  params.perturb = PerturbationParams::FromConfig(config);
  params.motion = MotionParams::FromConfig(config);

  const std::string where = config.Where("obs");
  std::ranges::sort(params.obs);
  if (params.obs.empty()) {
    throw Error(ErrorCode::kConfig,
                fmt::format("{}: expected at least one observation, found none", where));
  }
  const auto twice = std::ranges::adjacent_find(params.obs);
  if (twice != params.obs.end()) {
    throw Error(ErrorCode::kConfig, fmt::format("{}: '{}' is listed twice", where, *twice));
  }
  const std::vector<std::string> modes = ObsModes(params.motion);
  for (const std::string& name : params.obs) {
    if (std::ranges::count(modes, name) > 0) continue;
    throw Error(ErrorCode::kConfig,
                fmt::format("{}: env 'pusht' has no observation '{}'; it has {}", where, name,
                            fmt::join(modes, ", ")));
  }
  return params;
}

EnvSpec PushtEnv::Describe(const Config& config) { return SpecOf(PushtParams::FromConfig(config)); }

PushtEnv::PushtEnv(const Config& config)
    : Env(Describe(config)),
      params_(PushtParams::FromConfig(config)),
      expert_(params_.success_threshold),
      motion_(params_.motion) {}

void PushtEnv::BeginEpisode(std::uint64_t seed) {
  seed_ = seed;
  perturbation_ = Perturbation::Draw(params_.perturb, seed);
  physics_.SetSlide(perturbation_.slide);
  motion_.Begin(seed);
  physics_.SetWind(motion_.now().wind);
  n_held_ = 0;
  target_.reset();
}

void PushtEnv::DoReset(std::uint64_t seed) {
  BeginEpisode(seed);
  physics_.SetState(StartState(seed, params_.legacy));
  physics_
      .Substep();  // the peers step once, which pushes a block that overlaps the agent or a wall
}

StepResult PushtEnv::DoStep(std::span<const float> action) {
  target_ = Point{action[0], action[1]};
  physics_.SetWind(motion_.now().wind);
  physics_.StepTowards(*target_);
  motion_.Advance();
  return params_.motion.is_following ? ScoreFollowing() : ScoreBlock();
}

StepResult PushtEnv::ScoreBlock() {
  const Point& goal = motion_.now().goal;
  const Pose& block = physics_.state().block;
  const double coverage = Coverage({block.x - goal.x, block.y - goal.y, block.angle});
  metrics_ = {coverage, coverage};
  const bool is_solved = coverage > params_.success_threshold;
  return {.reward = std::clamp(coverage / params_.success_threshold, 0.0, 1.0),
          .terminated = is_solved,
          .success = is_solved,
          .metrics = metrics_};
}

StepResult PushtEnv::ScoreFollowing() {
  const MotionParams& task = params_.motion;
  const Point& goal = motion_.now().goal;
  const double distance =
      Distance(physics_.state().agent, {kGoalPose.x + goal.x, kGoalPose.y + goal.y});
  n_held_ = distance < task.follow_radius ? n_held_ + 1 : 0;
  metrics_ = {distance, static_cast<double>(n_held_)};
  const bool is_solved = n_held_ >= task.hold_steps;
  return {.reward = std::min(1.0, static_cast<double>(n_held_) / task.hold_steps),
          .terminated = is_solved,
          .success = is_solved,
          .metrics = metrics_};
}

void PushtEnv::DoAct(std::span<float> action) {
  if (params_.motion.is_following) {
    FollowGoal(motion_.now(), action);
  } else {
    expert_.Act(physics_.state(), motion_.now(), action);
  }
}

void PushtEnv::DoObserve(const ObsWriter& obs) {
  const PushtState& state = physics_.state();
  const Motion& now = motion_.now();
  for (const std::string& key : params_.obs) {
    if (key == "image") {
      const std::span<std::uint8_t> image = obs.Buffer<std::uint8_t>(key);
      renderer_.RenderObservation(state, image, VisibleGoal());
      perturbation_.Light(image);
      continue;
    }
    const std::span<float> out = obs.Buffer<float>(key);
    if (key == "agent_pos") {
      WriteNumbers(std::array{state.agent.x, state.agent.y}, out);
    } else if (key == "environment_state") {
      WriteNumbers(EnvironmentState(state.block), out);
    } else if (key == "goal") {
      WriteNumbers(std::array{kGoalPose.x + now.goal.x, kGoalPose.y + now.goal.y,
                              now.goal_velocity.x, now.goal_velocity.y},
                   out);
    } else if (key == "wind") {
      WriteNumbers(std::array{now.wind.x, now.wind.y}, out);
    } else if (key == "keypoint") {
      const Frame block(state.block);
      for (std::size_t i = 0; i < kNumKeypoints; ++i) {
        const Point p = block.ToWorld(kKeypoints[i]);
        WriteNumbers(std::array{p.x, p.y}, out.subspan(2 * i));
      }
    } else {
      WriteNumbers(std::array{state.agent.x, state.agent.y, state.block.x, state.block.y,
                              WrapAngle(state.block.angle)},
                   out);
    }
  }
}

void PushtEnv::DoRender(RgbImage* frame) {
  RenderFrame(physics_.state(), target_ ? &*target_ : nullptr, frame, VisibleGoal());
  perturbation_.Light(frame->pixels);
}

void PushtEnv::DoGetState(std::span<double> state) const {
  const PushtState& s = physics_.state();
  const std::array<double, kStateSize> values = {
      s.agent.x, s.agent.y,     s.agent_velocity.x, s.agent_velocity.y, s.block.x,
      s.block.y, s.block.angle, s.block_velocity.x, s.block_velocity.y, s.block_velocity.angle};
  std::copy(values.begin(), values.end(), state.begin());
  if (!params_.has_draws()) return;
  state[kStateSize] = static_cast<double>(seed_ >> 32);
  state[kStateSize + 1] = static_cast<double>(seed_ & 0xFFFFFFFFU);
  if (!params_.motion.is_given()) return;
  motion_.GetState(state.subspan(kStateSize + kSeedSize, WorldMotion::kStateSize));
  state.back() = n_held_;
}

void PushtEnv::DoSetState(std::span<const double> state) {
  BeginEpisode(params_.has_draws() ? SeedFrom(state.subspan(kStateSize, kSeedSize)) : 0);
  if (params_.motion.is_given()) {
    motion_.SetState(seed_, state.subspan(kStateSize + kSeedSize, WorldMotion::kStateSize));
    n_held_ = static_cast<int>(std::clamp(state.back(), 0.0, 1.0e6));
  }
  physics_.SetState({.agent = {state[0], state[1]},
                     .agent_velocity = {state[2], state[3]},
                     .block = {state[4], state[5], state[6]},
                     .block_velocity = {state[7], state[8], state[9]}});
}

// A square image shows the whole world; both have a y axis that points down.
void PushtEnv::DoPointerAction(double x, double y, std::span<float> action) const {
  action[0] = static_cast<float>(x * kWorldSize);
  action[1] = static_cast<float>(y * kWorldSize);
}

void PushtEnv::DoMarks(std::span<const float> action, int width, int height,
                       std::span<float> xy) const {
  const Point point = action.empty() ? physics_.state().agent : Point{action[0], action[1]};
  const Point mark = PlaceInFrame(point, width, height);
  const bool is_inside = mark.x >= 0.0 && mark.x <= 1.0 && mark.y >= 0.0 && mark.y <= 1.0;
  constexpr float kHidden = std::numeric_limits<float>::quiet_NaN();
  xy[0] = is_inside ? static_cast<float>(mark.x) : kHidden;
  xy[1] = is_inside ? static_cast<float>(mark.y) : kHidden;
}

}  // namespace dp_bench::pusht

DPB_EXPORT_PLUGIN(dp_bench::Env, "pusht", "1.0.0", &dp_bench::pusht::PushtEnv::Describe,
                  &dp_bench::CreateInstance<dp_bench::Env, dp_bench::pusht::PushtEnv>)
