// An env that breaks its process where and how its params say:
//   {"faults": [{"seed": 3, "kind": "segv", "in": "step", "step": 5}], "marker_dir": "/tmp/x"}
// With `marker_dir` every fault happens once: it leaves a file there, and not again. Without faults
// it is a point that moves by the action, and its expert moves it to the origin.
#include <dp_bench/env.h>
#include <dp_bench/env_abilities.h>
#include <dp_bench/error.h>
#include <dp_bench/plugin.h>
#include <dp_bench/random.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

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

void Break(const std::string& kind) {
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

class FaultyEnv final : public Env, public StateAccess, public Expert, public PictureMarks {
 public:
  explicit FaultyEnv(const Config& params)
      : marker_dir_(params.Get<std::string>("marker_dir", "")),
        is_random_(params.Get<bool>("is_random", false)) {
    const Config faults = params.Sub("faults");
    for (const std::string& key : faults.Keys()) {
      const Config fault = faults.Sub(key);
      faults_.push_back({fault.Get<std::uint64_t>("seed", std::uint64_t{0}),
                         fault.Get<std::string>("kind"), fault.Get<std::string>("in", "step"),
                         fault.Get<int>("step", 0)});
    }
    spec_.shape_meta.obs = {
        {.name = "pixels", .type = KeyType::kRgb, .shape = {3, 4, 4}, .dtype = DType::kUInt8},
        {.name = "pos", .shape = {2}}};
    spec_.shape_meta.action = {.name = "action", .shape = {2}};
    spec_.action_low = {-1.0F, -1.0F};
    spec_.action_high = {1.0F, 1.0F};
    spec_.control_hz = 10.0;
    spec_.max_steps = 30;
    spec_.metrics = {{"x", Aggregate::kMax}, {"y", Aggregate::kLast}};
    Visit("create");
  }
  ~FaultyEnv() override { Visit("destroy"); }

  const EnvSpec& spec() const override { return spec_; }

  void Reset(std::uint64_t seed) override {
    seed_ = seed;
    step_ = 0;
    Visit("reset");
    RandomStream random(seed, StreamId::kEnvStart);
    for (double& x : position_) x = random.UniformDouble();
    if (is_random_) position_[0] += static_cast<double>(getpid() % 1000);
  }

  StepResult Step(std::span<const float> action) override {
    Visit("step");
    ++step_;
    for (std::size_t i = 0; i < 2; ++i) {
      position_[i] = 0.9 * position_[i] + 0.1 * static_cast<double>(action[i]);
    }
    return {.reward = std::abs(position_[0]), .metrics = position_};
  }

  void Observe(ObsBuffers obs) override {
    Visit("observe");
    for (std::byte& pixel : obs[0]) pixel = static_cast<std::byte>(step_);
    const std::array<float, 2> numbers = {static_cast<float>(position_[0]),
                                          static_cast<float>(position_[1])};
    std::memcpy(obs[1].data(), numbers.data(), sizeof(numbers));
  }

  void Render(RgbImage* frame) override {
    Visit("render");
    for (std::uint8_t& value : frame->pixels) value = static_cast<std::uint8_t>(8 * step_);
  }

  StateAccess* state_access() override { return this; }
  std::size_t state_size() const override { return 3; }
  void GetState(std::span<double> state) const override {
    state[0] = position_[0];
    state[1] = position_[1];
    state[2] = step_;
  }
  void SetState(std::span<const double> state) override {
    position_ = {state[0], state[1]};
    step_ = static_cast<int>(state[2]);
  }

  PictureMarks* picture_marks() override { return this; }
  int n_marks() const override { return 1; }
  void StateMarks(int width, int height, std::span<float> xy) const override {
    xy[0] = static_cast<float>(position_[0]) / static_cast<float>(width);
    xy[1] = static_cast<float>(position_[1]) / static_cast<float>(height);
  }
  void ActionMarks(std::span<const float> action, int width, int height,
                   std::span<float> xy) const override {
    xy[0] = action[0] / static_cast<float>(width);
    xy[1] = action[1] / static_cast<float>(height);
  }

  // its gain grows with every action: an expert that remembers
  Expert* expert() override { return this; }
  void Begin(std::uint64_t seed) override { gain_ = 1.0 + static_cast<double>(seed % 7); }
  void Act(std::span<float> action) override {
    Visit("act");
    gain_ += 0.125;
    for (std::size_t i = 0; i < 2; ++i) action[i] = static_cast<float>(-gain_ * position_[i]);
  }

 private:
  // Where a fault may lie in wait.
  void Visit(const std::string& place) {
    for (std::size_t i = 0; i < faults_.size(); ++i) {
      const FaultSpec& fault = faults_[i];
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
    if (marker_dir_.empty()) return false;
    const std::filesystem::path marker = std::filesystem::path(marker_dir_) / std::to_string(fault);
    if (std::filesystem::exists(marker)) return true;
    std::ofstream(marker) << getpid();
    return false;
  }

  std::string marker_dir_;
  bool is_random_;
  std::vector<FaultSpec> faults_;
  EnvSpec spec_;
  std::uint64_t seed_ = 0;
  int step_ = 0;
  double gain_ = 1.0;
  std::vector<double> position_ = {0.0, 0.0};
};

std::unique_ptr<Env> Create(const Config& params) { return std::make_unique<FaultyEnv>(params); }

}  // namespace
}  // namespace dp_bench::broken

DPB_EXPORT_PLUGIN(dp_bench::Env, "faulty", "0.1.0", dp_bench::broken::Create)
