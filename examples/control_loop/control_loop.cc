// A trained policy in a control loop of a fixed rate. A simulated env takes the robot's place: to
// use a real one, replace the class Robot.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "dp_bench/deploy.h"
#include "dp_bench/env.h"
#include "dp_bench/load_env.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kUsage = R"(usage: control_loop CHECKPOINT [OPTION VALUE]...
  --hz 10             control steps per second; 0: without pauses
  --latency-steps 1   actions executed while another thread plans; 0: the loop waits for each plan
  --deadline-ms 0     time for each step; 0: 90 % of the control period
  --micro-batch 1     rows of the policy's batch; 1: the fastest plans, 0: as in its evaluation
  --seed 100000       of the first episode; the others follow
  --episodes 1        how many
  --minutes 0         instead: as many as fit in this time
  --chunking {}       how chunks follow each other: {"method": "rtc", "execute": 8}
  --latencies FILE    write how late each plan was executed, in the time of the env [ms]
)";

struct LoopSettings {
  std::map<std::string, double> numbers = {{"--hz", 10.0},         {"--latency-steps", 1.0},
                                           {"--deadline-ms", 0.0}, {"--micro-batch", 1.0},
                                           {"--seed", 100000.0},   {"--episodes", 1.0},
                                           {"--minutes", 0.0}};
  std::map<std::string, std::string> texts = {{"--chunking", "{}"}, {"--latencies", ""}};
};

// The robot: what it observes, and how it executes an action.
class Robot {
 public:
  Robot(const dp_bench::Config& env, const dp_bench::ShapeMeta& read_by_policy)
      : env_(dp_bench::LoadEnv(env)), keys_(env_->spec().shape_meta.obs) {
    memory_.reserve(keys_.size());
    for (const dp_bench::KeySpec& key : keys_) {
      std::vector<std::byte>& memory = memory_.emplace_back(key.ByteSize());
      buffers_.emplace_back(memory);
      if (std::ranges::find(read_by_policy.obs, key.name, &dp_bench::KeySpec::name) !=
          read_by_policy.obs.end()) {
        // an image of a camera would be {"image", pixels, {480, 640, 3}, {row_bytes, 3, 1}}
        views_.emplace_back(key.name, memory.data(), key.dtype, dp_bench::Dims(key.StorageShape()));
      }
    }
  }

  void Reset(std::uint64_t seed) { env_->Reset(seed); }

  std::span<const dp_bench::ObsView> Observe() {
    env_->Observe({keys_, buffers_});
    return views_;
  }

  dp_bench::StepResult Execute(std::span<const float> action) { return env_->Step(action); }

  int max_steps() const { return env_->spec().max_steps; }
  double control_hz() const { return env_->spec().control_hz; }

 private:
  std::unique_ptr<dp_bench::Env> env_;
  std::vector<dp_bench::KeySpec> keys_;
  std::vector<std::vector<std::byte>> memory_;  // of each key
  std::vector<std::span<std::byte>> buffers_;
  std::vector<dp_bench::ObsView> views_;
};

// What the loop measured.
struct Measurements {
  std::vector<double> act_s;     // calls of Act
  std::vector<double> plan_s;    // plans, in whichever thread
  std::vector<int> delays;       // steps from the observation of a plan to its first action
  int n_stale = 0;               // steps since the last observation that was planned for
  std::vector<double> jitter_s;  // |time between two actions - control period|
  int n_missed = 0;
  int n_missed_first = 0;  // of these, in the first step of an episode
  int n_late = 0;
  int n_episodes = 0;
  int n_success = 0;
};

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void Note(const dp_bench::ActTiming& timing, bool is_first, Measurements* measured) {
  measured->act_s.push_back(timing.act_s);
  if (timing.plan_s > 0.0) measured->plan_s.push_back(timing.plan_s);
  if (timing.is_stale) ++measured->n_stale;
  if (timing.plan_s > 0.0) {
    // the first plan of an episode takes no time of the env
    if (!is_first) measured->delays.push_back(measured->n_stale);
    measured->n_stale = 0;
  }
  if (timing.is_late) ++measured->n_late;
  if (timing.has_missed_deadline) ++measured->n_missed;
  if (timing.has_missed_deadline && is_first) ++measured->n_missed_first;
}

// `period_s` 0: without pauses.
void RunEpisode(dp_bench::Controller& controller, Robot& robot, std::uint64_t seed, double period_s,
                Measurements* measured) {
  controller.Reset(seed);
  robot.Reset(seed);
  double score = 0.0;
  bool success = false;
  int n_steps = 0;
  Clock::time_point begin;  // when the first action was executed
  double last_s = 0.0;      // since then, the last action
  for (bool is_over = false; !is_over; ++n_steps) {
    const double due_s = n_steps * period_s;
    if (n_steps > 0 && period_s > 0.0) {
      std::this_thread::sleep_until(begin + std::chrono::duration_cast<Clock::duration>(
                                                std::chrono::duration<double>(due_s)));
    }
    const std::span<const float> action = controller.Act(robot.Observe());
    if (n_steps == 0) begin = Clock::now();
    const double now_s = SecondsSince(begin);
    const dp_bench::StepResult result = robot.Execute(action);

    Note(controller.timing(), n_steps == 0, measured);
    if (n_steps > 0) measured->jitter_s.push_back(std::abs(now_s - last_s - period_s));
    last_s = now_s;
    score = n_steps == 0 ? result.reward : std::max(score, result.reward);
    success = success || result.success;
    is_over = result.terminated || n_steps + 1 == robot.max_steps();
  }
  std::printf("seed %llu: score %.6f, %s, %d steps\n", static_cast<unsigned long long>(seed), score,
              success ? "success" : "no success", n_steps);
  std::fflush(stdout);
  ++measured->n_episodes;
  measured->n_success += success ? 1 : 0;
}

void PrintTimes(const char* name, std::vector<double> seconds) {
  if (seconds.empty()) return;
  std::ranges::sort(seconds);
  const auto quantile = [&](double q) {
    return 1e3 * seconds[static_cast<std::size_t>(q * static_cast<double>(seconds.size() - 1))];
  };
  std::printf("%-8s %9.3f %9.3f %9.3f   %zu\n", name, quantile(0.5), quantile(0.99), quantile(1.0),
              seconds.size());
}

void Report(const Measurements& measured, bool is_paced) {
  std::printf("success in %d of %d episodes\n", measured.n_success, measured.n_episodes);
  std::printf("%-8s %9s %9s %9s   %s\n", "[ms]", "p50", "p99", "max", "number");
  PrintTimes("act", measured.act_s);
  PrintTimes("plan", measured.plan_s);
  if (!is_paced) return;
  PrintTimes("jitter", measured.jitter_s);
  std::printf("%d of %zu deadlines missed, %d of them in the first step of an episode\n",
              measured.n_missed, measured.act_s.size(), measured.n_missed_first);
  std::printf("%d steps without a plan in time\n", measured.n_late);
}

// In the time of the env, which passes faster than real time if the loop does.
void WriteLatencies(const std::vector<int>& delays, double control_hz, const std::string& path) {
  std::ofstream file(path);
  for (const int n_steps : delays) file << 1e3 * n_steps / control_hz << '\n';
  if (!file.flush()) throw std::runtime_error("cannot write '" + path + "'");
}

LoopSettings ReadOptions(int argc, char** argv) {
  LoopSettings options;
  for (int i = 2; i < argc; i += 2) {
    const auto text = options.texts.find(argv[i]);
    if (text != options.texts.end() && i + 1 < argc) {
      text->second = argv[i + 1];
      continue;
    }
    char* end = nullptr;
    const double value = i + 1 < argc ? std::strtod(argv[i + 1], &end) : -1.0;
    if (!options.numbers.contains(argv[i]) || end == argv[i + 1] || *end != '\0' ||
        !(value >= 0.0)) {
      throw std::invalid_argument(std::string("expected an option and a number of 0 or more at '") +
                                  argv[i] + "'\n" + kUsage);
    }
    options.numbers[argv[i]] = value;
  }
  return options;
}

void Run(const char* checkpoint, const LoopSettings& settings) {
  const std::map<std::string, double>& options = settings.numbers;
  const double hz = options.at("--hz");
  const double period_s = hz > 0.0 ? 1.0 / hz : 0.0;
  const double deadline_s = 1e-3 * options.at("--deadline-ms");
  dp_bench::Controller controller = dp_bench::Controller::Load(
      checkpoint, {.latency_steps = static_cast<int>(options.at("--latency-steps")),
                   .deadline_s = deadline_s > 0.0 ? deadline_s : 0.9 * period_s,
                   .chunking = settings.texts.at("--chunking"),
                   .micro_batch = static_cast<int>(options.at("--micro-batch"))});
  Robot robot(controller.config().Sub("env"), controller.spec().shape_meta);

  const auto first_seed = static_cast<std::uint64_t>(options.at("--seed"));
  const auto n_episodes = static_cast<std::uint64_t>(options.at("--episodes"));
  const double time_s = 60.0 * options.at("--minutes");
  const Clock::time_point start = Clock::now();
  Measurements measured;
  for (std::uint64_t i = 0; time_s > 0.0 ? SecondsSince(start) < time_s : i < n_episodes; ++i) {
    RunEpisode(controller, robot, first_seed + i, period_s, &measured);
  }
  Report(measured, period_s > 0.0);
  const std::string& latencies = settings.texts.at("--latencies");
  if (latencies.empty()) return;
  WriteLatencies(measured.delays, robot.control_hz(), latencies);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  try {
    Run(argv[1], ReadOptions(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
