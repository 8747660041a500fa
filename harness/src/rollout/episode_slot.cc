#include "rollout/episode_slot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

#include "checkpoint/safetensors.h"
#include "dp_bench/error.h"

namespace dp_bench {
namespace {

// Runs `body`; what it throws goes to `on_error` as text. An env comes from a plugin: it may throw
// anything.
template <class Body, class OnError>
void Guard(const Body& body, const OnError& on_error) {
  try {
    body();
  } catch (const std::exception& error) {
    on_error(error.what());
  } catch (...) {
    on_error("threw something that is not a std::exception");
  }
}

void RequireFinite(double value, std::string_view name) {
  if (std::isfinite(value)) return;
  throw Error(ErrorCode::kNumeric, fmt::format("the env reported {} = {}", name, value));
}

}  // namespace

EpisodeSlot::EpisodeSlot(const RolloutPlan& plan)
    : plan_(plan),
      history_(plan.shape_meta.obs, plan.horizons.n_obs_steps),
      actions_(plan.horizons.n_action_steps, static_cast<std::size_t>(plan.shape_meta.action_dim()),
               plan.n_stale_steps),
      frame_(0, 0) {
  // keys that the policy does not ask for are written one after the other, and never read
  const std::vector<KeySpec>& keys = plan.env.shape_meta.obs;
  std::size_t n_unused = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (plan.obs_index_of_env[i] < 0) n_unused += keys[i].ByteSize();
  }
  unused_obs_.resize(n_unused);
  obs_buffers_.resize(keys.size());
  std::span<std::byte> rest = unused_obs_;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (plan.obs_index_of_env[i] >= 0) continue;
    obs_buffers_[i] = rest.first(keys[i].ByteSize());
    rest = rest.subspan(keys[i].ByteSize());
  }
}

void EpisodeSlot::Start(const EpisodeJob& job) {
  DPB_ASSERT(state_ == State::kIdle);
  start_time_ = std::chrono::steady_clock::now();
  record_ = {.episode = job.episode, .split = job.split, .seed = job.seed};
  is_terminated_ = false;
  actions_.Clear();
  state_ = State::kAwaitsPlan;
  if (plan_.record_traces) trace_.Start(plan_.shape_meta, plan_.env.metrics.size());
  Guard([this] { ResetEnv(); },
        [this](std::string_view why) { Fail(fmt::format("reset: {}", why)); });
  if (awaits_plan() && job.is_filmed) OpenVideo();
}

void EpisodeSlot::ResetEnv() {
  if (env_ == nullptr) env_ = plan_.env_factory();
  if (env_ == nullptr) throw Error(ErrorCode::kEnv, "no env was created");
  env_->Reset(record_.seed);
  Observe();
  history_.PushAsFirst();
}

void EpisodeSlot::ExecuteChunk() {
  DPB_ASSERT(awaits_plan());
  const int n_steps = actions_.Begin();

  // only the steps that the next plan looks at are observed, none when there is no next plan
  const bool is_last_chunk = record_.n_steps + n_steps >= plan_.max_steps;
  const int first_observed = n_steps - plan_.horizons.n_obs_steps;
  for (int i = 0; i < n_steps && record_.n_steps < plan_.max_steps && !is_terminated_; ++i) {
    const int step = record_.n_steps;
    Guard([&] { Step(actions_.action(i), /*is_observed=*/!is_last_chunk && i >= first_observed); },
          [&](std::string_view why) { Fail(fmt::format("step {}: {}", step, why)); });
    record_.n_stale_steps += actions_.is_stale(i) ? 1 : 0;
    if (!awaits_plan()) return;
    FilmFrame();
  }
  if (is_terminated_ || record_.n_steps >= plan_.max_steps) End();
}

void EpisodeSlot::Step(std::span<const float> action, bool is_observed) {
  const StepResult result = env_->Step(action);

  trace_hash_.Update('s');
  trace_hash_.Update(std::as_bytes(action));
  trace_hash_.Update(result.reward);
  trace_hash_.Update(result.terminated);
  trace_hash_.Update(result.success);
  trace_hash_.Update(std::as_bytes(result.metrics));

  RequireFinite(result.reward, "reward");
  record_.score = record_.n_steps == 0 ? result.reward : std::max(record_.score, result.reward);
  record_.success = record_.success || result.success;
  AddToMetrics(result.metrics);
  if (plan_.record_traces) trace_.AddStep(action, result);
  is_terminated_ = result.terminated;
  ++record_.n_steps;

  if (is_observed && !is_terminated_) {
    Observe();
    history_.Push();
  }
}

void EpisodeSlot::Observe() {
  for (std::size_t i = 0; i < obs_buffers_.size(); ++i) {
    const int index = plan_.obs_index_of_env[i];
    if (index >= 0) obs_buffers_[i] = history_.Next(index);
  }
  env_->Observe(obs_buffers_);

  trace_hash_.Update('o');
  if (plan_.record_traces) trace_.AddObservation();
  for (int key = 0; key < static_cast<int>(plan_.shape_meta.obs.size()); ++key) {
    const std::span<const std::byte> frame = history_.Next(key);
    trace_hash_.Update(frame);
    if (plan_.record_traces) trace_.AddKey(key, frame);
  }
}

void EpisodeSlot::AddToMetrics(std::span<const double> values) {
  const std::vector<MetricSpec>& specs = plan_.env.metrics;
  if (values.size() != specs.size()) {
    throw Error(ErrorCode::kPlugin, fmt::format("the env reported {} metrics, its spec lists {}",
                                                values.size(), specs.size()));
  }
  if (record_.metrics.empty()) record_.metrics.assign(values.begin(), values.end());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    RequireFinite(values[i], specs[i].name);
    double& total = record_.metrics[i];
    if (specs[i].aggregate == Aggregate::kMax) total = std::max(total, values[i]);
    if (specs[i].aggregate == Aggregate::kLast) total = values[i];
    if (specs[i].aggregate == Aggregate::kMean && record_.n_steps > 0) total += values[i];
  }
}

void EpisodeSlot::Fail(const std::string& reason) {
  DPB_ASSERT(awaits_plan());
  record_.failure_reason = reason;
  record_.score = 0.0;
  record_.success = false;
  env_.reset();  // after an exception nobody knows what state it is in
  End();
}

void EpisodeSlot::End() {
  for (std::size_t i = 0; i < record_.metrics.size(); ++i) {
    if (plan_.env.metrics[i].aggregate == Aggregate::kMean) {
      record_.metrics[i] /= std::max(1, record_.n_steps);
    }
  }
  CloseVideo();
  record_.trace_hash = trace_hash_.HexDigest();
  if (plan_.record_traces) {
    const auto file = plan_.output_dir / TraceFile(record_.split, record_.seed);
    std::filesystem::create_directories(file.parent_path());
    WriteSafetensors(file, trace_.ToArrays());
  }
  record_.wall_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_time_).count();
  state_ = State::kEnded;
}

EpisodeRecord EpisodeSlot::TakeRecord() {
  DPB_ASSERT(has_record());
  state_ = State::kIdle;
  return std::move(record_);
}

PlanRow EpisodeSlot::plan_row() const {
  return {.seed = record_.seed, .env_step = static_cast<std::uint64_t>(record_.n_steps)};
}

void EpisodeSlot::OpenVideo() {
  GuardVideo([this] {
    const std::filesystem::path folder = plan_.output_dir / "media";
    std::filesystem::create_directories(folder);
    const std::string name = fmt::format("{}_{}.mp4", record_.split, record_.seed);
    encoder_ =
        std::make_unique<VideoEncoder>(folder / name, VideoOptions{.width = plan_.video_width,
                                                                   .height = plan_.video_height,
                                                                   .fps = plan_.env.control_hz,
                                                                   .crf = plan_.crf});
    record_.video = "media/" + name;
    frame_ = RgbImage(plan_.video_width, plan_.video_height);
  });
  FilmFrame();
}

void EpisodeSlot::FilmFrame() {
  if (encoder_ == nullptr) return;
  GuardVideo([this] {
    env_->Render(&frame_);
    encoder_->Write(frame_);
  });
}

void EpisodeSlot::CloseVideo() {
  if (encoder_ == nullptr) return;
  GuardVideo([this] { encoder_->Finish(); });
  encoder_.reset();
}

template <class Body>
void EpisodeSlot::GuardVideo(const Body& body) {
  Guard(body, [this](std::string_view why) {
    record_.video_error = why;
    record_.video.clear();
    encoder_.reset();
  });
}

}  // namespace dp_bench
