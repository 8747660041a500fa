#include "pusht_batch.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "dp_bench/error.h"

namespace dp_bench::python {
namespace {

// Envs that a worker steps at once; a step takes less than a microsecond.
constexpr std::size_t kMaxChunk = 32;

std::string EnvName(std::size_t env) { return "env " + std::to_string(env); }

}  // namespace

PushtBatch::PushtBatch(int num_envs, int n_threads, Seeding seeding, Autoreset autoreset,
                       int max_episode_steps)
    : seeding_(seeding),
      autoreset_(autoreset),
      max_episode_steps_(max_episode_steps),
      envs_(static_cast<std::size_t>(num_envs)),
      renderers_(static_cast<std::size_t>(n_threads)),
      workers_(n_threads) {}

void PushtBatch::Reset(const PushtResets& resets, const PushtRows& rows) {
  for (std::size_t i = 0; i < envs_.size(); ++i) {
    if (!resets.mask[i]) RequireStarted(i);
    if (resets.mask[i] && !resets.is_seeded[i] && !envs_[i].random) {
      throw Error(ErrorCode::kEnv, EnvName(i) + " has no seed; reset it with a seed first");
    }
  }
  workers_.ForEach(envs_.size(), kMaxChunk, [&](std::size_t worker, std::size_t env) {
    if (resets.mask[env]) ResetEnv(env, resets);
    WriteRow(worker, env, rows);
  });
}

void PushtBatch::ResetEnv(std::size_t env, const PushtResets& resets) {
  Instance& instance = envs_[env];
  if (resets.is_seeded[env]) instance.random.emplace(resets.seeds[env]);
  PushtStart start;
  if (resets.starts != nullptr) {
    std::copy_n(&resets.starts[env * kStateSize], kStateSize, start.begin());
  } else if (resets.is_seeded[env] && seeding_ == Seeding::kDiffusionPolicy) {
    start = LegacyStart(resets.seeds[env]);
  } else {
    start = DrawStart(*instance.random);
  }
  Restart(instance, start);
}

void PushtBatch::Restart(Instance& instance, const PushtStart& start) const {
  instance.sim.Reset(start);
  instance.target.reset();
  instance.n_steps = 0;
  instance.is_started = true;
  instance.has_ended = false;
}

PushtStart PushtBatch::DrawStart(NumpyGenerator& random) const {
  if (seeding_ == Seeding::kDiffusionPolicy) {
    // diffusion_policy would repeat the same start; the next episode gets a new seed instead
    return LegacyStart(static_cast<std::uint64_t>(random.Integers(0, std::int64_t{1} << 32)));
  }
  PushtStart start;
  for (std::size_t i = 0; i < 4; ++i) {
    start[i] = static_cast<double>(i < 2 ? random.Integers(50, 450) : random.Integers(100, 400));
  }
  start[4] = random.Uniform(-pusht::kPi, pusht::kPi);
  return start;
}

void PushtBatch::RequireStarted(std::size_t env) const {
  if (envs_[env].is_started) return;
  throw Error(ErrorCode::kEnv, EnvName(env) + " was never reset; call reset() first");
}

void PushtBatch::RequireSteppable(const double* actions) const {
  for (std::size_t i = 0; i < envs_.size(); ++i) {
    RequireStarted(i);
    if (!std::isfinite(actions[2 * i]) || !std::isfinite(actions[2 * i + 1])) {
      throw Error(ErrorCode::kNumeric, "expected a finite action for " + EnvName(i) + ", found [" +
                                           std::to_string(actions[2 * i]) + ", " +
                                           std::to_string(actions[2 * i + 1]) + "]");
    }
    if (autoreset_ == Autoreset::kDisabled && envs_[i].has_ended) {
      throw Error(ErrorCode::kEnv, "the episode of " + EnvName(i) +
                                       " has ended; reset it with options={'reset_mask': mask}");
    }
  }
}

void PushtBatch::Step(const double* actions, const PushtRows& rows, const PushtRows& final_rows,
                      const PushtOutcomes& outcomes) {
  RequireSteppable(actions);
  workers_.ForEach(envs_.size(), kMaxChunk, [&](std::size_t worker, std::size_t env) {
    StepEnv(worker, env, &actions[2 * env], rows, final_rows, outcomes);
  });
}

void PushtBatch::StepEnv(std::size_t worker, std::size_t env, const double* action,
                         const PushtRows& rows, const PushtRows& final_rows,
                         const PushtOutcomes& outcomes) {
  Instance& instance = envs_[env];
  const bool is_due = instance.has_ended && autoreset_ == Autoreset::kNextStep;
  if (is_due) {
    Restart(instance, DrawStart(*instance.random));
  } else {
    instance.target = pusht::Point{action[0], action[1]};
    instance.sim.Step(*instance.target);
    ++instance.n_steps;
  }
  outcomes.rewards[env] = is_due ? 0.0 : instance.sim.reward();
  outcomes.terminated[env] = instance.sim.is_success();
  outcomes.truncated[env] = max_episode_steps_ > 0 && instance.n_steps >= max_episode_steps_;
  outcomes.has_coverage[env] = !is_due;
  instance.has_ended = outcomes.terminated[env] || outcomes.truncated[env];

  if (instance.has_ended && autoreset_ == Autoreset::kSameStep) {
    WriteRow(worker, env, final_rows);
    Restart(instance, DrawStart(*instance.random));
    outcomes.has_coverage[env] = false;
  }
  WriteRow(worker, env, rows);
}

void PushtBatch::WriteRow(std::size_t worker, std::size_t env, const PushtRows& rows) {
  const PushtSim& sim = envs_[env].sim;
  const pusht::PushtState& now = sim.state();
  if (rows.state != nullptr) {
    sim.WriteState(std::span<double, kStateSize>(&rows.state[env * kStateSize], kStateSize));
  }
  if (rows.environment_state != nullptr) {
    sim.WriteKeypoints(std::span<double, kKeypointsSize>(
        &rows.environment_state[env * kKeypointsSize], kKeypointsSize));
  }
  if (rows.agent_pos != nullptr) {
    rows.agent_pos[2 * env] = now.agent.x;
    rows.agent_pos[2 * env + 1] = now.agent.y;
  }
  if (rows.pixels != nullptr) {
    renderers_[worker].RenderObservation(now, {&rows.pixels[env * kPixelsSize], kPixelsSize});
  }
  const std::array<double, kInfoSize> info = {
      now.agent.x, now.agent.y, now.agent_velocity.x, now.agent_velocity.y,
      now.block.x, now.block.y, now.block.angle,      sim.coverage()};
  std::ranges::copy(info, &rows.info[env * kInfoSize]);
  rows.n_contacts[env] = sim.n_contacts();
  rows.is_success[env] = sim.is_success();
}

void PushtBatch::Render(int env, RgbImage* frame) const {
  RequireStarted(static_cast<std::size_t>(env));
  const Instance& instance = envs_[static_cast<std::size_t>(env)];
  pusht::RenderFrame(instance.sim.state(), instance.target ? &*instance.target : nullptr, frame);
}

}  // namespace dp_bench::python
