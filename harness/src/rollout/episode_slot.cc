#include "rollout/episode_slot.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "control/latency_model.h"
#include "core/atomic_file.h"
#include "core/clock.h"
#include "core/errors.h"
#include "rollout/catch_all.h"
#include "run/run_files.h"
#include "run/safetensors.h"

namespace dp_bench::rollout {
namespace {

// Black et al. 2025, Alg. 1: a plan expects the longest of the last delays.
constexpr std::size_t kRememberedDelays = 10;
constexpr std::size_t kObsDigits = 16;  // of EpisodeCourse::first_obs

// Of a failure's text; the name of a fault is at its beginning, and often what happened at its end.
constexpr std::size_t kReasonBytes = 4096;

std::string Shortened(const std::string& reason) {
  if (reason.size() <= kReasonBytes) return reason;
  const auto is_inside_letter = [&](std::size_t i) {  // of UTF-8
    return (reason[i] & '\xC0') == '\x80';
  };
  std::size_t begin = kReasonBytes / 2;
  std::size_t end = reason.size() - kReasonBytes / 2;
  while (begin > 0 && is_inside_letter(begin)) --begin;
  while (end < reason.size() && is_inside_letter(end)) ++end;
  return fmt::format("{} ... ({} bytes are left out) ... {}", reason.substr(0, begin), end - begin,
                     reason.substr(end));
}

}  // namespace

std::filesystem::path RecordedFile(std::uint64_t seed) {
  return std::filesystem::path(run::kRecordingFolder) / fmt::format("test_{}.safetensors", seed);
}

EpisodeSlot::EpisodeSlot(const RolloutPlan& plan)
    : plan_(plan),
      history_(plan.shape_meta.obs, plan.horizons.n_obs_steps),
      actions_(plan.horizons.n_action_steps, static_cast<std::size_t>(plan.shape_meta.action_dim()),
               plan.execute, plan.horizons.temporal_ensemble_coeff,
               plan.config.chunking.method == control::ChunkingMethod::kStateRollForward),
      course_(plan.shape_meta.obs, plan.obs_ranges) {
  if (plan.correction != nullptr) {
    window_ = control::MakeObsBatch(plan.shape_meta.obs, /*n_rows=*/1, plan.horizons.n_obs_steps);
  }
  if (plan.records_steps) unobserved_.emplace(plan.env);
  // keys that the policy does not use are written, and never read
  const std::vector<KeySpec>& keys = plan.env.shape_meta.obs;
  unused_obs_.resize(keys.size());
  obs_buffers_.resize(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (plan.obs_index_of_env[i] >= 0) continue;
    unused_obs_[i].resize(keys[i].ByteSize());
    obs_buffers_[i] = unused_obs_[i];
  }
}

void EpisodeSlot::Start(const run::EpisodeJob& job) {
  DPB_ASSERT(state_ == State::kIdle);
  start_time_ = std::chrono::steady_clock::now();
  record_ = {.episode = job.episode, .split = job.split, .seed = job.seed};
  is_terminated_ = false;
  actions_.Clear();
  delays_.clear();
  AskForPlan();
  course_.Start();
  jerk_.Start();
  n_plans_ = 0;
  first_obs_.clear();
  state_ = State::kAwaitsPlan;
  recording_.reset();
  if (plan_.records_steps && job.split == "test") {
    recording_.emplace(data::RecordedKeys(plan_.env));
  }
  if (plan_.config.record_traces) trace_.Start(plan_.shape_meta, plan_.env.metrics.size());
  CatchAll([this] { ResetEnv(); },
           [this](std::string_view why) { Fail(fmt::format("reset: {}", why)); });
  if (awaits_plan() && job.has_video) {
    video_ = std::make_unique<EpisodeVideo>(plan_, job, env_.get());
  }
}

void EpisodeSlot::ResetEnv() {
  if (env_ == nullptr) env_ = plan_.env_factory();
  if (env_ == nullptr) throw EnvError("no env was created");
  env_->Reset(record_.seed);
  Observe();
  first_obs_ = trace_hash_.HexDigestSoFar().substr(0, kObsDigits);
  history_.PushAsFirst();
}

void EpisodeSlot::ExecuteChunk() {
  DPB_ASSERT(awaits_plan());
  actions_.Take();
  ++n_plans_;
  const int n_steps = actions_.n_steps();
  if (video_ != nullptr) video_->AddPlan(actions_.chunk(), actions_.steps(), env_.get());

  // observes only the steps that the next plan uses; none if there is no next plan
  const bool is_last_chunk = record_.n_steps + n_steps >= plan_.max_steps;
  int first_observed = is_last_chunk ? n_steps : n_steps - plan_.horizons.n_obs_steps;
  if (plan_.correction != nullptr) first_observed = 0;
  for (int i = 0; i < n_steps && record_.n_steps < plan_.max_steps && !is_terminated_; ++i) {
    const int step = record_.n_steps;
    const std::span<const float> action = ActionOfStep(i);
    CatchAll([&] { Step(action, /*is_observed=*/i >= first_observed); },
             [&](std::string_view why) { Fail(fmt::format("step {}: {}", step, why)); });
    if (!awaits_plan()) return;
    const bool is_stale = actions_.is_stale(i);
    record_.n_stale_steps += is_stale ? 1 : 0;
    jerk_.Add(action, n_plans_ - (is_stale ? 1 : 0));
  }
  if (is_terminated_ || record_.n_steps >= plan_.max_steps) {
    End();
  } else {
    AskForPlan();
  }
}

// What is executed in a step of the queue, [Da].
std::span<const float> EpisodeSlot::ActionOfStep(int i) {
  const std::span<const float> planned = actions_.action(i);
  if (plan_.correction == nullptr) return planned;
  history_.CopyWindows(0, &window_);
  corrected_.assign(planned.begin(), planned.end());
  plan_.correction->Correct(window_, actions_.place(i), corrected_, &layers_);
  return corrected_;
}

void EpisodeSlot::AskForPlan() {
  const control::LatencyModel& latency = plan_.config.chunking.latency;
  int delay = plan_.delay;
  if (latency.is_random() && record_.n_steps > 0) {
    const auto step = static_cast<std::uint64_t>(record_.n_steps);
    delay = control::ControlSteps(latency.DrawMs(record_.seed, step), plan_.env.control_hz);
  }
  expected_delay_ = delays_.empty() ? plan_.delay : std::ranges::max(delays_);
  if (plan_.config.chunking.method == control::ChunkingMethod::kStateRollForward) {
    // made for a time: an early plan waits for it
    actions_.Ask(expected_delay_);
    for (int i = expected_delay_; i < delay; ++i) actions_.Hold();
  } else {
    actions_.Ask(delay);
  }
  const bool takes_time = plan_.delay > 0 || latency.is_random();
  if (record_.n_steps == 0 || !takes_time) return;  // nothing moves before the first plan
  record_.n_late_plans += delay > actions_.n_left() ? 1 : 0;
  ++record_.n_plans;
  if (!latency.is_random()) return;
  delays_.push_back(delay);
  if (delays_.size() > kRememberedDelays) delays_.pop_front();
}

void EpisodeSlot::Step(std::span<const float> action, bool is_observed) {
  if (recording_) RecordStep(action);
  const StepResult result = env_->Step(action);

  trace_hash_.Update('s');
  trace_hash_.Update(std::as_bytes(action));
  trace_hash_.Update(result.reward);
  trace_hash_.Update(result.terminated);
  trace_hash_.Update(result.success);
  trace_hash_.Update(std::as_bytes(result.metrics));

  AddToMetrics(result.metrics);
  record_.score = ScoreAfter(result.reward);
  record_.success = record_.success || result.success;
  if (plan_.config.record_traces) trace_.AddStep(action, result);
  course_.AddStep(result.reward, result.terminated);
  is_terminated_ = result.terminated;
  ++record_.n_steps;
  record_.success_steps.Add(record_.n_steps, result.success);

  if (is_observed && !is_terminated_) {
    Observe();
    history_.Push();
  }
  if (video_ != nullptr) video_->AddStep(result, record_, env_.get());
}

// The observation before the step, one buffer per key of the env, and the action that it is given.
void EpisodeSlot::RecordStep(std::span<const float> action) {
  const bool is_observed = observed_step_ == record_.n_steps;
  if (!is_observed) unobserved_->Observe(*env_);
  const std::span<const std::span<std::byte>> obs =
      is_observed ? obs_buffers_ : unobserved_->buffers();
  std::vector<std::span<const std::byte>> values(obs.begin(), obs.end());
  values.push_back(std::as_bytes(action));
  recording_->Append(values);
}

void EpisodeSlot::Observe() {
  for (std::size_t i = 0; i < obs_buffers_.size(); ++i) {
    const int index = plan_.obs_index_of_env[i];
    if (index >= 0) obs_buffers_[i] = history_.Next(index);
  }
  env_->Observe({plan_.env.shape_meta.obs, obs_buffers_});
  observed_step_ = record_.n_steps;

  trace_hash_.Update('o');
  if (plan_.config.record_traces) trace_.AddObservation();
  for (int key = 0; key < static_cast<int>(plan_.shape_meta.obs.size()); ++key) {
    const std::span<const std::byte> frame = history_.Next(key);
    trace_hash_.Update(frame);
    course_.AddObservation(key, frame);
    if (plan_.config.record_traces) trace_.AddKey(key, frame);
  }
}

double EpisodeSlot::ScoreAfter(double reward) const {
  if (!plan_.score_metric) {
    return record_.n_steps == 0 ? reward : std::max(record_.score, reward);
  }
  const double total = record_.metrics[*plan_.score_metric];
  const bool is_mean = plan_.env.metrics[*plan_.score_metric].aggregate == Aggregate::kMean;
  return is_mean ? total / (record_.n_steps + 1) : total;
}

void EpisodeSlot::AddToMetrics(std::span<const double> values) {
  const std::vector<MetricSpec>& specs = plan_.env.metrics;
  if (record_.metrics.empty()) record_.metrics.assign(values.begin(), values.end());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    double& total = record_.metrics[i];
    if (specs[i].aggregate == Aggregate::kMax) total = std::max(total, values[i]);
    if (specs[i].aggregate == Aggregate::kLast) total = values[i];
    if (specs[i].aggregate == Aggregate::kMean && record_.n_steps > 0) total += values[i];
  }
}

void EpisodeSlot::Fail(const std::string& reason) {
  DPB_ASSERT(awaits_plan());
  record_.failure_reason = Shortened(reason);
  record_.score = std::min(0.0, record_.score);  // no better than the episode was
  record_.success = false;
  record_.success_steps = {};
  env_.reset();  // its state is unknown after an exception
  End();
}

void EpisodeSlot::End() {
  for (std::size_t i = 0; i < record_.metrics.size(); ++i) {
    if (plan_.env.metrics[i].aggregate == Aggregate::kMean) {
      record_.metrics[i] /= std::max(1, record_.n_steps);
    }
  }
  if (video_ != nullptr) {
    video_->Finish();
    record_.video = video_->video();
    record_.video_error = video_->error();
    video_.reset();
  }
  record_.trace_hash = trace_hash_.HexDigest();
  record_.course = course_.course();
  if (plan_.score_metric) record_.course->best_reward = course_.best_reward();
  record_.jerk_at_seams = jerk_.mean_at_seams();
  record_.jerk_elsewhere = jerk_.mean_elsewhere();
  record_.course->first_obs = first_obs_;
  if (plan_.config.record_traces) {
    const auto file = plan_.output_dir / run::TraceFile(record_.split, record_.seed);
    std::filesystem::create_directories(file.parent_path());
    run::WriteSafetensors(file, trace_.ToArrays());
  }
  if (recording_ && !record_.failure_reason) {
    const auto file = plan_.output_dir / RecordedFile(record_.seed);
    core::CreateFolders(file.parent_path());
    run::WriteSafetensors(file, recording_->ToArrays());
  }
  recording_.reset();
  record_.wall_s = core::SecondsSince(start_time_);
  state_ = State::kEnded;
}

run::EpisodeRecord EpisodeSlot::TakeRecord() {
  DPB_ASSERT(has_record());
  state_ = State::kIdle;
  return std::move(record_);
}

control::PlanRow EpisodeSlot::plan_row() const {
  return {.seed = record_.seed,
          .env_step = static_cast<std::uint64_t>(record_.n_steps),
          .committed = actions_.committed(),
          .delay = expected_delay_};
}

}  // namespace dp_bench::rollout
