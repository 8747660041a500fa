// An env that breaks its process where and how its params say:
//   {"faults": [{"seed": 3, "kind": "segv", "in": "step", "step": 5}], "marker_dir": "/tmp/x"}
// With `marker_dir` every fault happens only once: it leaves a marker file there. Without faults it
// is a point that moves by the action, and its expert moves it to the origin.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dp_bench/env.h"
#include "dp_bench/error.h"
#include "dp_bench/plugin.h"
#include "dp_bench/random.h"

namespace dp_bench::broken {
namespace {

constexpr std::size_t kLeakBytes = std::size_t{64} << 20;  // per step

struct FaultSpec {
  std::uint64_t seed = 0;
  std::string kind;
  std::string in;
  int step = 0;
};

void OverflowTheStack() {
  volatile char huge[std::size_t{256} << 20];
  huge[0] = 1;
  static_cast<void>(huge[0]);
}

void Leak() {
  static std::vector<std::vector<char>> kept;
  kept.emplace_back(kLeakBytes, 'x');
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

// A process that leaves the env's session, as a server does.
void StartDaemon() {
  const pid_t first = fork();
  if (first == 0) {
    setsid();
    if (fork() == 0) pause();
    _exit(0);
  }
  waitpid(first, nullptr, 0);
}

void Break(const std::string& kind) {
  if (kind == "daemon") StartDaemon();
  if (kind == "segv") {
    int* volatile nowhere = nullptr;
    *nowhere = 1;
  }
  if (kind == "abort") std::abort();
  if (kind == "exit") std::exit(3);
  if (kind == "kill") std::raise(SIGKILL);
  if (kind == "stop") std::raise(SIGSTOP);
  if (kind == "hang") {
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  if (kind == "spin") {
    const volatile bool forever = true;
    while (forever) {
    }
  }
  if (kind == "close") {
    for (int fd = 3; fd < 100; ++fd) ::close(fd);
  }
  if (kind == "overflow") OverflowTheStack();
  if (kind == "throw") throw Error(ErrorCode::kEnv, "the point got lost");
  if (kind == "throw_number") throw 42;
}

struct FaultyParams {
  std::string marker_dir;
  bool is_random = false;
  std::vector<FaultSpec> faults;

  static FaultyParams FromConfig(const Config& config) {
    FaultyParams params = {.marker_dir = config.Get<std::string>("marker_dir", ""),
                           .is_random = config.Get<bool>("is_random", false)};
    const Config faults = config.Sub("faults");
    for (const std::string& key : faults.Keys()) {
      const Config fault = faults.Sub(key);
      params.faults.push_back({fault.Get<std::uint64_t>("seed", std::uint64_t{0}),
                               fault.Get<std::string>("kind"), fault.Get<std::string>("in", "step"),
                               fault.Get<int>("step", 0)});
    }
    return params;
  }
};

class FaultyEnv final : public Env {
 public:
  static EnvSpec Describe(const Config& params) {
    FaultyParams::FromConfig(params);
    EnvSpec spec;
    spec.shape_meta.obs = {
        {.name = "pixels", .type = KeyType::kRgb, .shape = {3, 4, 4}, .dtype = DType::kUInt8},
        {.name = "pos", .shape = {2}}};
    spec.shape_meta.action = {.name = "action", .shape = {2}};
    spec.action_low = {-1.0F, -1.0F};
    spec.action_high = {1.0F, 1.0F};
    spec.control_hz = 10.0;
    spec.max_steps = 30;
    spec.metrics = {{"x", Aggregate::kMax}, {"y", Aggregate::kLast}};
    spec.perturbations = {{.name = "wind", .low = -1.0, .high = 2.0, .strength = 0.5}};
    spec.abilities = {.state_size = 3, .has_expert = true, .n_marks = 1};
    return spec;
  }

  explicit FaultyEnv(const Config& params)
      : Env(Describe(params)), params_(FaultyParams::FromConfig(params)) {
    Visit("create");
  }
  ~FaultyEnv() override { Visit("destroy"); }

 private:
  void DoReset(std::uint64_t seed) override {
    seed_ = seed;
    step_ = 0;
    Visit("reset");
    RandomStream random(seed, StreamId::kEnvStart);
    for (double& x : position_) x = random.UniformDouble();
    if (params_.is_random) position_[0] += static_cast<double>(getpid() % 1000);
  }

  StepResult DoStep(std::span<const float> action) override {
    Visit("step");
    ++step_;
    for (std::size_t i = 0; i < 2; ++i) {
      position_[i] = 0.9 * position_[i] + 0.1 * static_cast<double>(action[i]);
    }
    return {.reward = std::abs(position_[0]), .metrics = position_};
  }

  void DoObserve(const ObsWriter& obs) override {
    Visit("observe");
    for (std::uint8_t& pixel : obs.Buffer<std::uint8_t>("pixels")) {
      pixel = static_cast<std::uint8_t>(step_);
    }
    const std::span<float> position = obs.Buffer<float>("pos");
    for (std::size_t i = 0; i < 2; ++i) position[i] = static_cast<float>(position_[i]);
  }

  void DoRender(RgbImage* frame) override {
    Visit("render");
    for (std::uint8_t& value : frame->pixels) value = static_cast<std::uint8_t>(8 * step_);
  }

  void DoGetState(std::span<double> state) const override {
    state[0] = position_[0];
    state[1] = position_[1];
    state[2] = step_;
  }
  void DoSetState(std::span<const double> state) override {
    position_ = {state[0], state[1]};
    step_ = static_cast<int>(state[2]);
  }

  void DoMarks(std::span<const float> action, int width, int height,
               std::span<float> xy) const override {
    xy[0] = action.empty() ? static_cast<float>(position_[0]) : action[0];
    xy[1] = action.empty() ? static_cast<float>(position_[1]) : action[1];
    xy[0] /= static_cast<float>(width);
    xy[1] /= static_cast<float>(height);
  }

  // its gain grows with every action: an expert with memory
  void DoBeginExpert(std::uint64_t seed) override { gain_ = 1.0 + static_cast<double>(seed % 7); }
  void DoAct(std::span<float> action) override {
    Visit("act");
    gain_ += 0.125;
    for (std::size_t i = 0; i < 2; ++i) action[i] = static_cast<float>(-gain_ * position_[i]);
  }

  // Where a fault may occur.
  void Visit(const std::string& place) {
    for (std::size_t i = 0; i < params_.faults.size(); ++i) {
      const FaultSpec& fault = params_.faults[i];
      const bool is_due = fault.in == place && (place == "create" || fault.seed == seed_) &&
                          (fault.step == step_ || fault.kind == "leak");
      if (!is_due || HasHappened(i)) continue;
      if (fault.kind == "leak") {
        Leak();
      } else {
        Break(fault.kind);
      }
    }
  }

  bool HasHappened(std::size_t fault) const {
    if (params_.marker_dir.empty()) return false;
    const std::filesystem::path marker =
        std::filesystem::path(params_.marker_dir) / std::to_string(fault);
    if (std::filesystem::exists(marker)) return true;
    std::ofstream(marker) << getpid();
    return false;
  }

  FaultyParams params_;
  std::uint64_t seed_ = 0;
  int step_ = 0;
  double gain_ = 1.0;
  std::vector<double> position_ = {0.0, 0.0};
};

}  // namespace
}  // namespace dp_bench::broken

DPB_EXPORT_PLUGIN(dp_bench::Env, "faulty", "0.1.0", &dp_bench::broken::FaultyEnv::Describe,
                  &dp_bench::CreateInstance<dp_bench::Env, dp_bench::broken::FaultyEnv>)
