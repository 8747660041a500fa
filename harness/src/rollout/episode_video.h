// The video of one episode, and its notes.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/env.h"
#include "media/video_encoder.h"
#include "media/video_overlay.h"
#include "rollout/rollout_plan.h"
#include "run/episode_record.h"
#include "run/video_notes.h"

namespace dp_bench::rollout {

/// Videos from the state after Reset: an episode of n steps has n + 1 frames, or fewer where there
/// would be more than 30 in a second; the last state is always one. Used by the thread that uses
/// the env. No function throws: an error in the env's drawing, in the overlay or on the disk ends
/// the video and nothing else.
class EpisodeVideo {
 public:
  /// Begins with a frame of `env`, which was just Reset. `plan` must outlive the video.
  EpisodeVideo(const RolloutPlan& plan, const run::EpisodeJob& job, Env* env);

  /// A plan was made: `chunk` [Ta, Da], and the actions until the next one, [any number, Da], which
  /// differ from the chunk if there is a latency (see ActionQueue).
  void AddPlan(std::span<const float> chunk, std::span<const float> actions, Env* env);

  /// A step was executed. `record` is that of the episode so far, including this step.
  void AddStep(const StepResult& result, const run::EpisodeRecord& record, Env* env);

  /// Completes the files.
  void Finish();

  /// Relative to the output folder; empty if there is no video.
  const std::string& video() const { return video_; }
  /// Why there is no video; empty if there is one.
  const std::string& error() const { return error_; }

 private:
  void Open();
  void AddState(Env* env);
  void AddFrame(const run::EpisodeRecord& record, Env* env);
  void WriteFrame();
  void DrawMoment();
  void AppendMarks(std::span<const float> action, Env* env, std::vector<float>* marks);
  void AppendMarksOfEach(std::span<const float> actions, Env* env, std::vector<float>* marks);

  // Runs `body`; what it throws ends the video.
  template <class Body>
  void Guard(const Body& body);

  const RolloutPlan& plan_;
  const std::filesystem::path notes_file_;
  std::string video_;
  std::string error_;
  run::VideoNotes notes_;
  std::vector<float> planned_marks_;  // of the actions until the next plan, [any number, M, 2]
  const int steps_per_frame_;
  RgbImage frame_;             // the latest; written once the plan made at it is known
  media::VideoMoment moment_;  // of that frame, without its marks
  bool is_frame_due_ = false;
  std::unique_ptr<media::VideoEncoder> encoder_;  // null if there is no video, or it has ended
};

}  // namespace dp_bench::rollout
