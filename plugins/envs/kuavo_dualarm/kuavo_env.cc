// Episodes, control steps and observations. The goals of objects and hands are in the tasks,
// images in cameras.cc.
#include "kuavo_env.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dp_bench/error.h"
#include "dp_bench/plugin.h"
#include "dp_bench/random.h"
#include "expert/dual_arm_expert.h"

namespace dp_bench::kuavo_dualarm {
namespace {

// streams of kEnvStart: 0 is the task, 1 the model, 3 and up the perturbations
constexpr std::uint64_t kDelayDraws = 2;
constexpr double kTwoTo32 = 4294967296.0;
constexpr std::size_t kClockSize = 3;  // upper and lower half of the seed, step
constexpr const char* kEnvironmentState = "observation.environment_state";
constexpr const char* kState = "observation.state";

std::shared_ptr<const KuavoModel> LoadModel(const Params& params) {
  return std::make_shared<const KuavoModel>(
      mujoco::FindScene(fmt::format("kuavo/{}.xml", params.task->name), params.scene_dir));
}

std::size_t StateSize(const KuavoModel& model, Task& task) {
  return static_cast<std::size_t>(mj_stateSize(model.model(), mjSTATE_INTEGRATION)) +
         task.counters().size() + Controller::kStateSize + kClockSize;
}

EnvSpec MakeSpec(const Params& params, const KuavoModel& model, Task& task,
                 const Controller& controller) {
  EnvSpec spec;
  spec.shape_meta.obs = ImageKeys(params);
  if (params.obs == ObsMode::kState) {
    spec.shape_meta.obs.push_back(
        {.name = kEnvironmentState,
         .shape = {static_cast<std::int64_t>(task.environment_state_size())}});
  }
  constexpr auto kDim = static_cast<std::int64_t>(kActionDim);
  spec.shape_meta.obs.push_back({.name = kState, .shape = {kDim}});
  spec.shape_meta.action = {.name = "action", .shape = {kDim}};
  spec.action_low.assign(controller.low().begin(), controller.low().end());
  spec.action_high.assign(controller.high().begin(), controller.high().end());
  spec.control_hz = kControlHz;
  spec.max_steps = task.max_steps();
  spec.metrics = task.metrics();
  spec.moves_without_actions = task.moves_without_actions();
  spec.tasks = TaskNames();
  spec.obs_modes = Params::ObsModeNames();
  spec.instruction = params.task->instruction;
  spec.perturbations = PerturbationParams::Kinds();
  spec.abilities = {.state_size = StateSize(model, task),
                    .has_expert = true,
                    .cameras = CameraNames(),
                    .n_marks = kNumSides};
  return spec;
}

}  // namespace

EnvSpec KuavoEnv::Describe(const Config& config) {
  const Params params = Params::FromConfig(config);
  const std::shared_ptr<const KuavoModel> model = LoadModel(params);
  return MakeSpec(params, *model, *params.task->make_task(*model, params.task_settings),
                  Controller(*model));
}

KuavoEnv::KuavoEnv(const Config& config)
    : Env(Describe(config)),
      params_(Params::FromConfig(config)),
      original_(LoadModel(params_)),
      randomizer_(params_.randomization.ChangesModel() || params_.perturbation.ChangesModel()
                      ? std::make_unique<ModelRandomizer>(original_, params_.randomization,
                                                          params_.perturbation)
                      : nullptr),
      model_(randomizer_ ? &randomizer_->varied() : original_.get()),
      data_(model_->MakeData()),
      task_(params_.task->make_task(*model_, params_.task_settings)),
      controller_(*model_),
      cameras_(*model_, *data_, params_) {}

KuavoEnv::~KuavoEnv() = default;

void KuavoEnv::BeginEpisode(std::uint64_t seed) {
  seed_ = seed;
  step_ = 0;
  delay_ = params_.randomization.control_delay *
           RandomStream(seed, StreamId::kEnvStart, kDelayDraws).UniformDouble();
  if (randomizer_) randomizer_->Draw(seed, *data_);
  // also resets the solver's warm start
  mj_resetData(model_->model(), data_.get());
}

void KuavoEnv::PlaceRobot() {
  Command home = {};
  for (const Side side : kSides) {
    for (std::size_t i = 0; i < kNumArmJoints; ++i) {
      home[Index(side) * kSideDim + i] = kHome[Index(side)][i];
      data_->qpos[model_->arm(side).qpos[i]] = kHome[Index(side)][i];
    }
  }
  controller_.Hold(home);
  controller_.WriteTargets(kSubsteps - 1, 0.0, *data_);
  const HeadIds& head = model_->head();
  data_->qpos[head.qpos[1]] = params_.head_pitch;
  data_->ctrl[head.actuator[1]] = params_.head_pitch;
}

void KuavoEnv::DoReset(std::uint64_t seed) {
  BeginEpisode(seed);
  PlaceRobot();
  RandomStream random(seed, StreamId::kEnvStart);
  task_->Start(random, params_.randomization.object_pose, *data_);
  mj_fwdPosition(model_->model(), data_.get());
}

/// The action with this step's noise on its joint targets.
Command KuavoEnv::NoisyCommand(std::span<const float> action) const {
  Command command = {};
  std::copy(action.begin(), action.end(), command.begin());
  const double noise = params_.randomization.action_noise;
  if (noise == 0.0) return command;
  RandomStream random(seed_, StreamId::kEnvNoise, static_cast<std::uint64_t>(step_));
  for (std::size_t i = 0; i < kActionDim; ++i) {
    if (i % kSideDim < kNumArmJoints) command[i] += noise * static_cast<double>(random.Normal());
  }
  return command;
}

StepResult KuavoEnv::DoStep(std::span<const float> action) {
  const mujoco::LogScope log(model_->scene_file(), seed_);
  controller_.SetCommand(NoisyCommand(action));
  task_->Drive(seed_, step_, *data_);
  for (int substep = 0; substep < kSubsteps; ++substep) {
    controller_.WriteTargets(substep, delay_, *data_);
    mj_step(model_->model(), data_.get());
    mujoco::RequireHealthy(*data_, step_, seed_);
  }
  // update poses and contacts to the state at the end of the step
  mj_fwdPosition(model_->model(), data_.get());
  ++step_;

  StepResult result = task_->Evaluate(*data_);
  result.terminated = result.success;
  return result;
}

void KuavoEnv::DoObserve(const ObsWriter& obs) {
  if (params_.obs == ObsMode::kState) {
    task_->WriteEnvironmentState(*data_, obs.Buffer<float>(kEnvironmentState));
  } else {
    cameras_.Observe(obs);
  }
  WriteState(obs.Buffer<float>(kState));
}

void KuavoEnv::WriteState(std::span<float> out) const {
  for (const Side side : kSides) {
    const std::size_t first = Index(side) * kSideDim;
    for (std::size_t i = 0; i < kNumArmJoints; ++i) {
      out[first + i] = static_cast<float>(data_->qpos[model_->arm(side).qpos[i]]);
    }
    out[first + kNumArmJoints] = static_cast<float>(model_->GripperClosure(*data_, side));
  }
}

void KuavoEnv::DoRender(RgbImage* frame) { cameras_.Render(frame); }

CameraParameters KuavoEnv::DoGetCamera(int camera, int width, int height) const {
  return cameras_.Parameters(camera, width, height);
}

void KuavoEnv::DoRenderCamera(int camera, RgbImage* frame) { cameras_.RenderCamera(camera, frame); }

void KuavoEnv::DoMarks(std::span<const float> action, int width, int height,
                       std::span<float> xy) const {
  for (const Side side : kSides) {
    const Pose pose =
        action.empty() ? PinchPose(*model_, *data_, side) : PinchPoseAfter(action, side);
    std::ranges::copy(cameras_.PlaceInFrame(pose.position, width, height),
                      xy.subspan(2 * Index(side)).begin());
  }
}

Pose KuavoEnv::PinchPoseAfter(std::span<const float> action, Side side) const {
  if (!action_arms_) action_arms_ = std::make_unique<ArmIk>(*model_);
  JointVector joints;
  for (std::size_t i = 0; i < kNumArmJoints; ++i) {
    const std::size_t k = Index(side) * kSideDim + i;
    joints[i] =
        std::clamp(static_cast<double>(action[k]), controller_.low()[k], controller_.high()[k]);
  }
  return action_arms_->PinchPose(side, joints);
}

void KuavoEnv::DoBeginExpert(std::uint64_t seed) {
  if (!expert_) expert_ = std::make_unique<DualArmExpert>(*model_, *data_, *params_.task);
  expert_->Begin(seed);
}

void KuavoEnv::DoAct(std::span<float> action) {
  if (expert_) return expert_->Act(action);
  throw Error(ErrorCode::kEnv, "Act before the expert began; call BeginExpert after Reset");
}

void KuavoEnv::DoGetState(std::span<double> state) const {
  mj_getState(model_->model(), data_.get(), state.data(), mjSTATE_INTEGRATION);
  std::span<double> rest =
      state.last(task_->counters().size() + Controller::kStateSize + kClockSize);
  const std::span<const double> counters = task_->counters();
  std::copy(counters.begin(), counters.end(), rest.begin());
  rest = rest.subspan(counters.size());
  controller_.GetState(rest.first(Controller::kStateSize));
  rest = rest.subspan(Controller::kStateSize);
  rest[0] = static_cast<double>(seed_ >> 32);
  rest[1] = static_cast<double>(seed_ & 0xFFFFFFFFU);
  rest[2] = static_cast<double>(step_);
}

void KuavoEnv::DoSetState(std::span<const double> state) {
  const std::span<const double> clock = state.last(kClockSize);
  for (const double number : clock) {
    if (number < 0.0 || number >= kTwoTo32 || number != std::floor(number)) {
      throw Error(ErrorCode::kEnv,
                  fmt::format("expected the state's seed and step in its last {} numbers, found {}",
                              kClockSize, number));
    }
  }
  BeginEpisode((static_cast<std::uint64_t>(clock[0]) << 32) | static_cast<std::uint64_t>(clock[1]));
  step_ = static_cast<std::int64_t>(clock[2]);
  mj_setState(model_->model(), data_.get(), state.data(), mjSTATE_INTEGRATION);
  std::span<const double> rest =
      state.last(task_->counters().size() + Controller::kStateSize + kClockSize);
  const std::span<double> counters = task_->counters();
  std::copy_n(rest.begin(), counters.size(), counters.begin());
  controller_.SetState(rest.subspan(counters.size(), Controller::kStateSize));
  mj_fwdPosition(model_->model(), data_.get());
}

}  // namespace dp_bench::kuavo_dualarm

DPB_EXPORT_PLUGIN(dp_bench::Env, "kuavo_dualarm", "1.0.0",
                  &dp_bench::kuavo_dualarm::KuavoEnv::Describe,
                  &dp_bench::CreateInstance<dp_bench::Env, dp_bench::kuavo_dualarm::KuavoEnv>)
