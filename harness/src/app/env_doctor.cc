// dp_bench doctor --env: what can be said about an env before there is data.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "app/verbs.h"
#include "core/clock.h"
#include "core/console.h"
#include "dp_bench/error.h"
#include "dp_bench/random.h"
#include "inspect/data_inspection.h"
#include "plugin/obs_memory.h"
#include "rollout/certify_determinism.h"
#include "task/key_check.h"

namespace dp_bench::app {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr std::uint64_t kSeed = 100000;
constexpr double kMostSeconds = 20.0;  // of the episode
constexpr int kWidth = 320;            // of the image [px]
constexpr int kHeight = 240;

double MillisecondsSince(Clock::time_point start) { return 1e3 * core::SecondsSince(start); }

// The mean time of a step with random actions, and of an observation after it. Some envs find only
// at the end of an episode that their params do not fit.
json TimeEpisode(Env& env) {
  plugin::ObsMemory seen(env.spec());
  std::vector<float> action(env.spec().action_low.size());
  RandomStream random(kSeed, StreamId::kPolicyNoise);
  double step_ms = 0.0;
  double observe_ms = 0.0;
  int n = 0;
  bool is_over = false;
  const auto begin = Clock::now();
  for (; n < env.spec().max_steps && !is_over && core::SecondsSince(begin) < kMostSeconds; ++n) {
    for (std::size_t i = 0; i < action.size(); ++i) {
      action[i] = std::lerp(env.spec().action_low[i], env.spec().action_high[i], random.Uniform());
    }
    auto start = Clock::now();
    is_over = env.Step(action).terminated;
    step_ms += MillisecondsSince(start);
    start = Clock::now();
    seen.Observe(env);
    observe_ms += MillisecondsSince(start);
  }
  return {{"n_steps", n}, {"step_ms", step_ms / n}, {"observe_ms", observe_ms / n}};
}

// An env that draws nothing can be evaluated without videos.
json TimeImage(Env& env) {
  try {
    RgbImage image(kWidth, kHeight);
    const auto start = Clock::now();
    env.Render(&image);
    return {{"render_ms", MillisecondsSince(start)}};
  } catch (const Error& error) {
    return {{"no_images", error.what()}};
  }
}

// What a file in configs/task/ needs. `env`: as it was given, without defaults.
json ProposeConfig(const task::Task& task, const json& env, const json& shape_meta) {
  return {{"name", task.name()},
          {"shape_meta", shape_meta},
          {"env", env},
          {"env_runner",
           {{"n_train", 0}, {"n_test", 50}, {"test_start_seed", kSeed}, {"certify", true}}}};
}

void PrintText(const json& found, const inspect::EnvInspection& inspection) {
  core::PrintResult("{}\n", inspect::ToText(inspection));
  core::PrintResult("{:<14} {:.0f} ms to make it, {:.1f} ms for a reset\n", "start",
                    found["make_ms"].get<double>(), found["reset_ms"].get<double>());
  core::PrintResult("{:<14} {:.2f} ms, and {:.2f} ms for an observation (mean of {})\n", "step",
                    found["step_ms"].get<double>(), found["observe_ms"].get<double>(),
                    found["n_steps"].get<int>());
  core::PrintResult(
      "{:<14} {}\n", "image",
      found.contains("render_ms")
          ? fmt::format("{:.1f} ms ({} x {})", found["render_ms"].get<double>(), kWidth, kHeight)
          : found["no_images"].get<std::string>());
  core::PrintResult("{:<14} {}\n\nA config to start from, configs/task/NAME.json:\n{}\n", "seeds",
                    found["certificate"].get<std::string>(), found["config"].dump(2));
}

}  // namespace

int ExamineEnv(task::ExperimentOptions asked, bool as_json) {
  asked.isolate = true;  // so that a fresh process is part of the question
  const task::Task task(asked);
  task::RejectUnknownKeys(task, {});
  const inspect::EnvInspection inspection{task.name(), task.env_name(), task.DescribeEnv()};
  json found = inspect::ToJson(inspection);

  auto start = Clock::now();
  const std::unique_ptr<Env> env = task.CreateEnv();
  found["make_ms"] = MillisecondsSince(start);
  start = Clock::now();
  env->Reset(kSeed);
  found["reset_ms"] = MillisecondsSince(start);
  found.update(TimeEpisode(*env));
  found.update(TimeImage(*env));

  const run::DeterminismCertificate certificate =
      rollout::CertifyDeterminism([&] { return task.CreateEnv(); });
  found["certificate"] = run::Describe(certificate);
  found["deterministic"] = !certificate.difference;
  found["config"] = ProposeConfig(task, task::ResolvedConfig(asked).at("env"), found["shape_meta"]);
  if (as_json) {
    core::PrintResult("{}\n", found.dump(2));
  } else {
    PrintText(found, inspection);
  }
  return certificate.difference ? 1 : 0;
}

}  // namespace dp_bench::app
