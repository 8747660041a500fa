// A point that must reach a goal, with one mistake that authors of envs make: the param `mistake`
// names it. Without one ("none"), the env keeps the contract. tests/conformance/mistakes.py lists
// what dp_bench says about each.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dp_bench/env.h"
#include "dp_bench/error.h"
#include "dp_bench/plugin.h"
#include "dp_bench/random.h"

namespace dp_bench::broken {
namespace {

constexpr double kGoalRadius = 0.3;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string ReadMistake(const Config& params) {
  return params.Get<std::string>("mistake", "none", "what is wrong with this env");
}

void BreakShapes(const std::string& mistake, EnvSpec* spec) {
  std::vector<KeySpec>& obs = spec->shape_meta.obs;
  if (mistake == "duplicate_keys") obs[2].name = obs[1].name;
  if (mistake == "unnamed_key") obs[0].name = "";
  if (mistake == "observed_action") obs[0].name = "action";
  if (mistake == "empty_shape") obs[0].shape = {};
  if (mistake == "zero_size") obs[0].shape = {2, 0};
  if (mistake == "double_numbers") obs[0].dtype = DType::kFloat64;
  if (mistake == "channels_last") obs[1].shape = {8, 8, 3};
  if (mistake == "no_observations") obs.clear();
  if (mistake == "action_matrix") spec->shape_meta.action.shape = {2, 1};
  if (mistake == "action_name") spec->shape_meta.action.name = "actions";
}

void BreakNumbers(const std::string& mistake, EnvSpec* spec) {
  if (mistake == "no_control_hz") spec->control_hz = 0.0;
  if (mistake == "nan_control_hz") spec->control_hz = kNan;
  if (mistake == "no_max_steps") spec->max_steps = 0;
  if (mistake == "short_bounds") spec->action_low.pop_back();
  if (mistake == "reversed_bounds") std::swap(spec->action_low, spec->action_high);
  if (mistake == "infinite_bounds") spec->action_high[1] = INFINITY;
  if (mistake == "duplicate_metrics") spec->metrics.push_back(spec->metrics[0]);
  if (mistake == "strength_out_of_range") {
    spec->perturbations = {{.name = "wind", .low = 0.0, .high = 1.0, .strength = 2.0}};
  }
  if (mistake == "declared_state") spec->abilities.state_size = 4;
}

class MistakenEnv final : public Env {
 public:
  static EnvSpec Describe(const Config& params) {
    const std::string mistake = ReadMistake(params);
    if (mistake == "hang_in_describe") Hang();
    if (mistake == "describe_throws") throw std::runtime_error("no model file");
    EnvSpec spec = SpecWith(mistake);
    if (mistake == "described_otherwise") spec.max_steps = 90;
    return spec;
  }

  static std::unique_ptr<Env> Create(const Config& params) {
    if (ReadMistake(params) == "creates_nothing") return nullptr;
    if (ReadMistake(params) == "hang_in_create") Hang();
    if (ReadMistake(params) == "create_throws") throw std::runtime_error("no graphics card");
    return std::make_unique<MistakenEnv>(params);
  }

  explicit MistakenEnv(const Config& params)
      : Env(SpecWith(ReadMistake(params))), mistake_(ReadMistake(params)) {}

  ~MistakenEnv() override {
    if (Is("hang_in_destructor")) Hang();
  }

 private:
  void DoReset(std::uint64_t seed) override {
    if (Is("ignored_seed")) seed = 0;
    if (Is("null_in_reset")) *nothing_ = 1;
    if (Is("throw_in_reset")) throw std::runtime_error("the gripper is stuck");
    RandomStream random(seed, StreamId::kEnvStart);
    for (double& x : position_) x = 2.0 * random.UniformDouble() - 1.0;
    for (double& x : goal_) x = 2.0 * random.UniformDouble() - 1.0;
    if (Is("uninitialised_memory")) position_[0] += unset_[3];
    if (Is("unseeded_randomness")) position_[0] += 1e-3 * std::random_device()() / 4e9;
  }

  StepResult DoStep(std::span<const float> action) override {
    MisbehaveInStep();
    for (std::size_t i = 0; i < 2; ++i) {
      position_[i] += std::clamp<double>(action[i], -1.0, 1.0) / spec().control_hz;
    }
    if (Is("hidden_state")) position_[0] += 1e-6 * n_steps_++;
    if (Is("shared_state")) position_[0] += 1e-6 * n_all_steps++;
    distance_ = {std::hypot(position_[0] - goal_[0], position_[1] - goal_[1])};
    const bool is_over = distance_[0] < kGoalRadius;
    StepResult result = {.reward = is_over ? 1.0 : std::max(0.0, 1.0 - distance_[0] / 3.0),
                         .terminated = is_over,
                         .success = is_over && !Is("never_succeeds"),
                         .metrics = distance_};
    if (Is("nan_reward")) result.reward = kNan;
    if (Is("no_metrics")) result.metrics = {};
    if (Is("infinite_metric")) distance_[0] = INFINITY;
    return result;
  }

  void DoObserve(const ObsWriter& obs) override {
    if (Is("observe_moves")) position_[0] += 1e-6;
    if (Is("unknown_key")) obs.Buffer<float>("positions");
    if (Is("wrong_type")) obs.Buffer<std::uint8_t>("goal");
    const std::span<float> goal = obs.Buffer<float>("goal");
    std::ranges::copy(goal_, goal.begin());
    if (Is("unwritten_image_row")) {
      std::ranges::fill(obs.Buffer<std::uint8_t>("image").first(8 * 7 * 3), Shade());
    } else {
      std::ranges::fill(obs.Buffer<std::uint8_t>("image"), Shade());
    }
    const std::span<float> position = obs.Buffer<float>("position");
    position[0] = static_cast<float>(position_[0]);
    if (!Is("unwritten_number")) position[1] = static_cast<float>(position_[1]);
    if (Is("nan_observation")) position[1] = kNan;
    if (Is("writes_after_buffer")) position.data()[2] = 0.0F;
    if (Is("writes_before_buffer")) position.data()[-1] = 0.0F;
    if (Is("writes_after_image")) *obs.Buffer<std::uint8_t>("image").end() = 0;
  }

  void DoRender(RgbImage* frame) override {
    if (Is("own_frame_size")) *frame = RgbImage(320, 240);
    if (Is("render_moves")) position_[0] += 1e-6;
    std::ranges::fill(frame->pixels, Shade());
  }

  void DoAct(std::span<float> action) override {
    const double gain = Is("expert_out_of_bounds") ? 30.0 : 3.0;
    const double limit = Is("expert_out_of_bounds") ? 100.0 : 1.0;
    for (std::size_t i = 0; i < 2; ++i) {
      action[i] = static_cast<float>(std::clamp(gain * (goal_[i] - position_[i]), -limit, limit));
      if (Is("expert_walks_away")) action[i] = -action[i];
    }
    if (Is("expert_nan")) action[1] = kNan;
    if (Is("expert_writes_after")) action.data()[2] = 0.0F;
    if (Is("expert_moves")) position_[0] += 1e-6;
    if (Is("expert_memory")) action[0] *= 1.0F / (1.0F + 1e-4F * static_cast<float>(n_acts_++));
    if (Is("expert_throws")) throw std::logic_error("no inverse kinematics");
  }

  static EnvSpec SpecWith(const std::string& mistake) {
    EnvSpec spec;
    spec.shape_meta.obs = {
        {.name = "goal", .shape = {2}},
        {.name = "image", .type = KeyType::kRgb, .shape = {3, 8, 8}, .dtype = DType::kUInt8},
        {.name = "position", .shape = {2}}};
    spec.shape_meta.action = {.name = "action", .shape = {2}};
    spec.action_low = {-1.0F, -1.0F};
    spec.action_high = {1.0F, 1.0F};
    spec.control_hz = 10.0;
    spec.max_steps = 60;
    spec.metrics = {{"distance", Aggregate::kLast}};
    spec.abilities.has_expert = true;
    BreakShapes(mistake, &spec);
    BreakNumbers(mistake, &spec);
    return spec;
  }

  bool Is(std::string_view mistake) const { return mistake_ == mistake; }

  [[noreturn]] static void Hang() {
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  }

  void MisbehaveInStep() {
    if (Is("throw_in_step")) throw std::out_of_range("joint 7");
    if (Is("throw_number")) throw 42;
    if (Is("hang_in_step")) Hang();
    if (Is("crash_in_step")) std::abort();
    if (Is("exit_in_step")) std::exit(0);
    if (Is("quick_exit_in_step")) std::quick_exit(0);
    if (Is("bare_exit_in_step")) _exit(0);
    if (Is("allocates_in_step")) trail_.push_back(std::to_string(position_[0]) + " and more text");
  }

  std::uint8_t Shade() const { return static_cast<std::uint8_t>(100.0 + 20.0 * position_[0]); }

  static inline int n_all_steps = 0;

  std::string mistake_;
  std::unique_ptr<double[]> unset_ = std::make_unique_for_overwrite<double[]>(8);
  std::array<double, 2> position_ = {};
  std::array<double, 2> goal_ = {};
  std::array<double, 1> distance_ = {};
  int n_steps_ = 0;
  int n_acts_ = 0;
  int* volatile nothing_ = nullptr;
  std::vector<std::string> trail_;
};

}  // namespace
}  // namespace dp_bench::broken

DPB_EXPORT_PLUGIN(dp_bench::Env, "mistaken", "0.1.0", &dp_bench::broken::MistakenEnv::Describe,
                  &dp_bench::broken::MistakenEnv::Create)
