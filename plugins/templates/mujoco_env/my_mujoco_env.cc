// An arm of two links that must touch a disc, simulated by MuJoCo. Replace the MJCF in scenes/ and
// the task below by your own. The contract is in dp_bench/env.h, the tools are in dp_bench/mujoco/.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>

#include "dp_bench/config_keys.h"
#include "dp_bench/env.h"
#include "dp_bench/mujoco/model.h"
#include "dp_bench/mujoco/renderer.h"
#include "dp_bench/plugin.h"
#include "dp_bench/random.h"

namespace {

namespace mujoco = dp_bench::mujoco;

constexpr double kUpperArm = 0.25;  // [m], as in the MJCF
constexpr double kForearm = 0.2;
constexpr double kGoalRadius = 0.04;
constexpr double kControlHz = 20.0;
constexpr int kSubsteps = 25;        // of 2 ms
constexpr double kMaxStep = 0.15;    // [rad] of the expert, per control step
constexpr int kImageSize = 96;       // [px]
constexpr float kJointRange = 2.6F;  // [rad]
const std::string kScene = "my_mujoco_env.xml";

// Read every param here: its field has the default.
struct Params {
  explicit Params(const dp_bench::Config& config) {
    const dp_bench::ConfigKeys keys(config);
    keys.Choice("obs", &is_rgb, {{"state", false}, {"rgb", true}}, "what a policy observes");
    keys("max_steps", &max_steps, 1, 10000, "maximum number of steps of an episode");
  }
  bool is_rgb = false;
  int max_steps = 60;
};

class MyMujocoEnv final : public dp_bench::Env {
 public:
  static dp_bench::EnvSpec Describe(const dp_bench::Config& config) {
    const Params params(config);
    dp_bench::EnvSpec spec;
    if (params.is_rgb) {
      spec.shape_meta.obs = {{.name = "image",
                              .type = dp_bench::KeyType::kRgb,
                              .shape = {3, kImageSize, kImageSize},
                              .dtype = dp_bench::DType::kUInt8},
                             {.name = "joints", .shape = {2}}};
    } else {
      spec.shape_meta.obs = {{.name = "goal", .shape = {2}}, {.name = "joints", .shape = {2}}};
    }
    spec.shape_meta.action = {.name = "action", .shape = {2}};  // joint targets [rad]
    spec.action_low = {-kJointRange, -kJointRange};
    spec.action_high = {kJointRange, kJointRange};
    spec.control_hz = kControlHz;
    spec.max_steps = params.max_steps;
    spec.metrics = {{"distance", dp_bench::Aggregate::kLast}};
    spec.obs_modes = {"state", "rgb"};
    spec.abilities.has_expert = true;  // makes the demonstrations
    return spec;
  }

  explicit MyMujocoEnv(const dp_bench::Config& config)
      : Env(Describe(config)),
        is_rgb_(Params(config).is_rgb),
        model_(mujoco::SharedModel(mujoco::FindScene(kScene))),
        data_(mujoco::MakeData(*model_)),
        camera_(mujoco::IdOf(*model_, mjOBJ_CAMERA, "overview")),
        tip_(mujoco::IdOf(*model_, mjOBJ_SITE, "tip")),
        observer_(*model_),
        video_(*model_, mujoco::kSmooth) {}

 private:
  // All randomness of an episode comes from its seed.
  void DoReset(std::uint64_t seed) override {
    seed_ = seed;
    step_ = 0;
    mj_resetData(model_.get(), data_.get());
    dp_bench::RandomStream random(seed, dp_bench::StreamId::kEnvStart);
    for (int joint = 0; joint < 2; ++joint) {
      data_->qpos[joint] = data_->ctrl[joint] = 2.0 * random.UniformDouble() - 1.0;
    }
    // a place that the arm reaches
    const double radius = 0.15 + 0.25 * random.UniformDouble();
    const double angle = 3.0 * random.UniformDouble();
    data_->mocap_pos[0] = radius * std::cos(angle);
    data_->mocap_pos[1] = radius * std::sin(angle);
    mj_forward(model_.get(), data_.get());
  }

  // The action is [2] and finite, and the episode is not over: Env has checked it. Nothing here
  // allocates memory.
  dp_bench::StepResult DoStep(std::span<const float> action) override {
    const mujoco::LogScope log(kScene, seed_);
    std::copy(action.begin(), action.end(), data_->ctrl);
    for (int i = 0; i < kSubsteps; ++i) {
      mj_step(model_.get(), data_.get());
      mujoco::RequireHealthy(*data_, step_, seed_);
    }
    mj_fwdPosition(model_.get(), data_.get());  // positions at the end of the step
    ++step_;
    const mjtNum* const tip = data_->site_xpos + 3 * tip_;
    distance_ = {std::hypot(tip[0] - data_->mocap_pos[0], tip[1] - data_->mocap_pos[1])};
    const bool success = distance_[0] < kGoalRadius;
    return {.reward = success ? 1.0 : std::max(0.0, 1.0 - distance_[0]),
            .terminated = success,
            .success = success,
            .metrics = distance_};
  }

  void DoObserve(const dp_bench::ObsWriter& obs) override {
    if (is_rgb_) {
      observer_.RenderRgb(*model_, *data_, camera_, kImageSize, kImageSize,
                          obs.Buffer<std::uint8_t>("image"));
    } else {
      std::copy_n(data_->mocap_pos, 2, obs.Buffer<float>("goal").begin());
    }
    std::copy_n(data_->qpos, 2, obs.Buffer<float>("joints").begin());
  }

  void DoRender(dp_bench::RgbImage* frame) override {
    video_.RenderRgb(*model_, *data_, camera_, frame->width, frame->height, frame->pixels);
  }

  // The expert moves towards the joint angles at which the tip is on the goal, with the elbow bent
  // to one side.
  void DoAct(std::span<float> action) override {
    const double x = data_->mocap_pos[0];
    const double y = data_->mocap_pos[1];
    const double cosine = (x * x + y * y - kUpperArm * kUpperArm - kForearm * kForearm) /
                          (2.0 * kUpperArm * kForearm);
    const double elbow = std::acos(std::clamp(cosine, -1.0, 1.0));
    const double reach = std::atan2(kForearm * std::sin(elbow), kUpperArm + kForearm * cosine);
    const double goal_angle = std::atan2(y, x) - 0.5 * mjPI;  // angle 0 points along y
    const std::array<double, 2> target = {goal_angle - reach, elbow};
    for (std::size_t i = 0; i < 2; ++i) {
      const double step = std::clamp(target[i] - data_->qpos[i], -kMaxStep, kMaxStep);
      action[i] = static_cast<float>(data_->qpos[i] + step);
    }
  }

  bool is_rgb_;
  std::shared_ptr<const mjModel> model_;
  mujoco::DataPtr data_;
  int camera_;
  int tip_;
  mujoco::Renderer observer_;            // what a policy sees: quick
  mujoco::Renderer video_;               // what people see: smooth
  std::array<double, 1> distance_ = {};  // StepResult::metrics points here
  std::uint64_t seed_ = 0;
  std::int64_t step_ = 0;
};

}  // namespace

DPB_EXPORT_PLUGIN(dp_bench::Env, "my_mujoco_env", "0.1.0", &MyMujocoEnv::Describe,
                  &dp_bench::CreateInstance<dp_bench::Env, MyMujocoEnv>)
