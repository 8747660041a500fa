#include "rollout/episode_video.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "rollout/catch_all.h"

namespace dp_bench::rollout {
namespace {

constexpr std::size_t kPathSteps = 60;  // of the executed path, in the image
constexpr double kMaxFps = 30.0;        // drawing may take much longer than stepping

// An env may be wrong about what its image shows: hides marks outside of it.
void HideOutside(std::span<float> marks) {
  const auto is_inside = [](float value) { return value >= 0.0F && value <= 1.0F; };
  for (std::size_t i = 0; i + 1 < marks.size(); i += 2) {
    if (is_inside(marks[i]) && is_inside(marks[i + 1])) continue;
    marks[i] = marks[i + 1] = std::numeric_limits<float>::quiet_NaN();
  }
}

}  // namespace

EpisodeVideo::EpisodeVideo(const RolloutPlan& plan, const run::EpisodeJob& job, Env* env)
    : plan_(plan),
      notes_file_(plan.output_dir / run::VideoNotesFile(job.split, job.seed)),
      video_(fmt::format("media/{}_{}.mp4", job.split, job.seed)),
      notes_{.n_action_steps = plan.horizons.n_action_steps,
             .action_dim = plan.shape_meta.action_dim()},
      steps_per_frame_(std::max(1, static_cast<int>(std::ceil(plan.env.control_hz / kMaxFps)))),
      frame_(plan.config.video_width, plan.config.video_height) {
  Guard([&] {
    notes_.n_marks = env->spec().abilities.n_marks;
    AddState(env);
    AddFrame({}, env);  // an env that cannot be drawn leaves no file
    Open();
  });
}

void EpisodeVideo::Open() {
  const std::filesystem::path path = plan_.output_dir / video_;
  std::filesystem::create_directories(path.parent_path());
  encoder_ = std::make_unique<media::VideoEncoder>(
      path, media::VideoOptions{.width = plan_.config.video_width,
                                .height = plan_.config.video_height,
                                .fps = plan_.env.control_hz / steps_per_frame_,
                                .crf = plan_.config.crf});
}

void EpisodeVideo::AddPlan(std::span<const float> chunk, std::span<const float> actions, Env* env) {
  if (encoder_ == nullptr) return;
  Guard([&] {
    notes_.plan_step.push_back(std::ssize(notes_.reward));
    notes_.plan.insert(notes_.plan.end(), chunk.begin(), chunk.end());
    AppendMarksOfEach(chunk, env, &notes_.plan_marks);
    planned_marks_.clear();
    AppendMarksOfEach(actions, env, &planned_marks_);
  });
}

void EpisodeVideo::AddStep(const StepResult& result, const run::EpisodeRecord& record, Env* env) {
  if (encoder_ == nullptr) return;
  Guard([&] {
    notes_.reward.push_back(result.reward);
    notes_.success.push_back(result.success ? 1 : 0);
    AddState(env);
    const bool is_last = result.terminated || record.n_steps >= plan_.max_steps;
    if (is_last || record.n_steps % steps_per_frame_ == 0) AddFrame(record, env);
  });
}

void EpisodeVideo::Finish() {
  if (encoder_ == nullptr) return;
  Guard([&] {
    WriteFrame();
    run::WriteVideoNotes(notes_file_, notes_);
    encoder_->Finish();
  });
  encoder_.reset();
}

void EpisodeVideo::AddState(Env* env) {
  WriteFrame();
  AppendMarks({}, env, &notes_.state_marks);
}

void EpisodeVideo::AddFrame(const run::EpisodeRecord& record, Env* env) {
  env->Render(&frame_);
  moment_ = {.step = record.n_steps, .score = record.score, .success = record.success};
  is_frame_due_ = true;
}

void EpisodeVideo::WriteFrame() {
  if (!std::exchange(is_frame_due_, false)) return;
  if (plan_.config.video_overlay) DrawMoment();
  encoder_->Write(frame_);
}

void EpisodeVideo::DrawMoment() {
  const std::span<const float> states = notes_.state_marks;
  const std::int64_t plan_step = notes_.plan_step.empty() ? 0 : notes_.plan_step.back();
  moment_.n_marks = static_cast<std::size_t>(notes_.n_marks);
  moment_.path = states.last(std::min(states.size(), 2 * moment_.n_marks * (kPathSteps + 1)));
  moment_.plan = planned_marks_;
  moment_.n_executed = static_cast<std::size_t>(moment_.step - plan_step);
  media::DrawOverlay(moment_, &frame_);
}

// Of one action, or without one of the current state.
void EpisodeVideo::AppendMarks(std::span<const float> action, Env* env, std::vector<float>* marks) {
  if (notes_.n_marks == 0) return;
  const std::size_t n_numbers = 2 * static_cast<std::size_t>(notes_.n_marks);
  marks->resize(marks->size() + n_numbers);
  const std::span<float> xy = std::span(*marks).last(n_numbers);
  env->Marks(action, frame_.width, frame_.height, xy);
  HideOutside(xy);
}

void EpisodeVideo::AppendMarksOfEach(std::span<const float> actions, Env* env,
                                     std::vector<float>* marks) {
  const auto action_dim = static_cast<std::size_t>(notes_.action_dim);
  for (; !actions.empty(); actions = actions.subspan(action_dim)) {
    AppendMarks(actions.first(action_dim), env, marks);
  }
}

template <class Body>
void EpisodeVideo::Guard(const Body& body) {
  CatchAll(body, [this](std::string_view why) {
    error_ = why;
    video_.clear();
    encoder_.reset();
  });
}

}  // namespace dp_bench::rollout
