// Videos with plans and paths, and what must not depend on them.
#include "rollout/episode_video.h"

#include <algorithm>
#include <cmath>

#include "core/atomic_file.h"
#include "harness/rollout/fixture.h"
#include "media/video_overlay.h"
#include "run/safetensors.h"
#include "support/images.h"
#include "support/record_hash.h"

namespace dp_bench::rollout {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

enum class MarksKind { kRight, kThrow, kOutside };

/// Two hands: the first goes to the right with every step, the second is hidden.
class MarkedEnv final : public FakeEnv {
 public:
  MarkedEnv(FakeWorld& world, MarksKind marks) : FakeEnv(world, {.n_marks = 2}), marks_(marks) {}

  void DoReset(std::uint64_t seed) override {
    n_steps_ = 0;
    FakeEnv::DoReset(seed);
  }
  StepResult DoStep(std::span<const float> action) override {
    ++n_steps_;
    return FakeEnv::DoStep(action);
  }

  void DoMarks(std::span<const float> action, int, int, std::span<float> xy) const override {
    if (action.empty()) {
      return Write(0.02F * static_cast<float>(n_steps_),
                   marks_ == MarksKind::kOutside ? -0.1F : 0.5F, xy);
    }
    if (marks_ == MarksKind::kThrow) throw Error(ErrorCode::kEnv, "lost the hands");
    Write(0.5F + 0.5F * std::tanh(action[0]), 0.5F + 0.5F * std::tanh(action[1]), xy);
  }

 private:
  static void Write(float x, float y, std::span<float> xy) {
    xy[0] = x;
    xy[1] = y;
    xy[2] = xy[3] = std::numeric_limits<float>::quiet_NaN();
  }

  MarksKind marks_;
  int n_steps_ = 0;
};

class EpisodeVideoTest : public RolloutTest {
 protected:
  EpisodeVideoTest() {
    config_.n_train = 0;
    config_.n_test = 2;
    config_.n_videos = 2;
    config_.video_width = 96;
    config_.video_height = 64;
    config_.record_traces = true;
  }

  run::RunResult Video(MarksKind marks = MarksKind::kRight) {
    return RunIn([&] { return std::make_unique<MarkedEnv>(world_, marks); });
  }

  std::filesystem::path NotesFile() const {
    return scratch_.path() / "media/test_100000.safetensors";
  }
  run::VideoNotes Notes() const { return run::ReadVideoNotes(NotesFile()); }
  std::string NotesBytes() const { return core::ReadTextFile(NotesFile(), 1U << 20); }

  std::vector<RgbImage> Frames() const {
    return FramesOf(scratch_.path() / "media/test_100000.mp4");
  }

  std::vector<float> ExecutedActions() const {
    const run::Safetensors trace =
        run::ReadSafetensors(scratch_.path() / "traces/test_100000.safetensors");
    const std::span<const float> actions = trace.tensors.find("action")->second.as<float>();
    return {actions.begin(), actions.end()};
  }
};

TEST_F(EpisodeVideoTest, TheOverlayChangesImagesAndNothingElse) {
  const run::RunResult with = Video();
  const std::vector<RgbImage> drawn = Frames();
  const std::string notes = NotesBytes();
  config_.video_overlay = false;
  const run::RunResult without = Video();
  const std::vector<RgbImage> plain = Frames();
  EXPECT_EQ(run::HashRecords(without.records), run::HashRecords(with.records));
  EXPECT_EQ(NotesBytes(), notes);
  ASSERT_EQ(plain.size(), drawn.size());
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NE(plain[i].pixels, drawn[i].pixels) << i;
}

TEST_F(EpisodeVideoTest, NotesTellPlansPathRewardsAndSuccess) {
  world_.end_of = [](std::uint64_t) { return 21; };
  Video();
  const run::VideoNotes notes = Notes();
  EXPECT_THAT(notes.plan_step, ElementsAre(0, 8, 16));
  EXPECT_EQ(notes.n_action_steps, 8);
  EXPECT_EQ(notes.action_dim, 2);
  EXPECT_EQ(notes.n_marks, 2);
  // without latency, the executed actions are chunk after chunk
  const std::vector<float> executed = ExecutedActions();
  ASSERT_EQ(executed.size(), 21U * 2);
  EXPECT_TRUE(std::equal(executed.begin(), executed.end(), notes.plan.begin()));
  ASSERT_EQ(notes.plan_marks.size(), 3U * 8 * 2 * 2);
  EXPECT_EQ(notes.plan_marks[4 * 20], 0.5F + 0.5F * std::tanh(executed[2 * 20]));
  EXPECT_TRUE(std::isnan(notes.plan_marks[2]));
  ASSERT_EQ(notes.state_marks.size(), 22U * 2 * 2);
  EXPECT_EQ(notes.state_marks[4 * 21], 0.02F * 21.0F);
  ASSERT_EQ(notes.success.size(), 21U);
  EXPECT_EQ(notes.success[19], 0);
  EXPECT_EQ(notes.success[20], 1);
  EXPECT_EQ(Frames().size(), 22U);
}

TEST_F(EpisodeVideoTest, FastEnvsAreNotDrawnAtEveryStep) {
  world_.control_hz = 80.0;  // every third step
  world_.end_of = [](std::uint64_t) { return 7; };
  Video();
  EXPECT_EQ(Frames().size(), 4U);  // after 0, 3, 6 and 7 steps
  EXPECT_NEAR(media::VideoReader(scratch_.path() / "media/test_100000.mp4").fps(), 80.0 / 3.0,
              1e-3);
  EXPECT_EQ(Notes().state_marks.size(), 8U * 2 * 2);
}

TEST_F(EpisodeVideoTest, WithLatencyNotesKeepThePlansAsTheyWereMade) {
  config_.realtime = 1.0;
  config_.realtime_latency_ms = 300.0;  // 3 steps
  Video();
  const run::VideoNotes notes = Notes();
  EXPECT_THAT(notes.plan_step, ElementsAre(0, 5, 10, 15, 20, 25));
  // the second chunk takes over with its fourth action, 3 steps after it was requested
  const std::vector<float> executed = ExecutedActions();
  EXPECT_EQ(executed[2 * 8], notes.plan[2 * (8 + 3)]);
  EXPECT_EQ(Frames().size(), 31U);
}

TEST_F(EpisodeVideoTest, AnEnvWithoutMarksGetsTheCaption) {
  Run();
  EXPECT_EQ(Notes().n_marks, 0);
  const std::vector<RgbImage> drawn = Frames();
  config_.video_overlay = false;
  Run();
  const std::vector<RgbImage> plain = Frames();
  EXPECT_EQ(run::HashRecords(Video().records), run::HashRecords(Run().records));
  ASSERT_EQ(drawn.size(), plain.size());
  EXPECT_NE(drawn.back().pixels, plain.back().pixels);
}

TEST_F(EpisodeVideoTest, MarksThatFailCostTheVideoOnly) {
  const std::string hash = run::HashRecords(Video().records);
  const run::RunResult result = Video(MarksKind::kThrow);
  EXPECT_EQ(run::HashRecords(result.records), hash);
  EXPECT_EQ(result.records[0].video, "");
  EXPECT_EQ(result.records[0].video_error, "lost the hands");
}

TEST_F(EpisodeVideoTest, MarksOutsideOfTheImageAreHidden) {
  Video(MarksKind::kOutside);
  const run::VideoNotes notes = Notes();  // their reader accepts no others
  EXPECT_TRUE(std::ranges::all_of(notes.state_marks, [](float x) { return std::isnan(x); }));
}

TEST_F(EpisodeVideoTest, AnEpisodeWithoutAPlanHasOneFrame) {
  EnvRunner runner =
      MakeRunner([&] { return std::make_unique<MarkedEnv>(world_, MarksKind::kRight); });
  FakePlanner planner(4, [](const PlannedRow& row) { row.chunk[0] = std::nanf(""); });
  EXPECT_TRUE(runner.Run(planner).records[0].failure_reason.has_value());
  EXPECT_EQ(Frames().size(), 1U);
  EXPECT_TRUE(Notes().plan_step.empty());
}

TEST_F(EpisodeVideoTest, AnEpisodeThatCannotStartLeavesTheVideoOfAnotherAlone) {
  config_.n_envs = 1;
  world_.fault_of = [](std::uint64_t seed) {
    return seed == 100001 ? Fault::kThrowInReset : Fault::kNone;
  };
  const run::RunResult result = Video();
  EXPECT_EQ(result.records[0].video, "media/test_100000.mp4");
  EXPECT_EQ(result.records[1].video, "");
  EXPECT_THAT(*result.records[1].failure_reason, HasSubstr("cannot reset"));
}

int CountChanged(const RgbImage& a, const RgbImage& b, int top, int bottom) {
  int n_changed = 0;
  for (int i = 3 * top * a.width; i < 3 * bottom * a.width; ++i) {
    n_changed += a.pixels[static_cast<std::size_t>(i)] != b.pixels[static_cast<std::size_t>(i)];
  }
  return n_changed;
}

TEST(VideoOverlay, DrawsAtTheMarksAndInTheCaption) {
  for (const int size : {96, 256, 512}) {
    const RgbImage plain(size, size);
    RgbImage frame = plain;
    const std::vector<float> path = {0.2F, 0.25F, 0.25F, 0.25F, 0.3F, 0.25F};
    const std::vector<float> plan = {0.3F, 0.25F, 0.4F, 0.25F, 0.5F, 0.25F};
    media::DrawOverlay({.n_marks = 1, .path = path, .plan = plan, .n_executed = 1, .step = 120},
                       &frame);
    EXPECT_EQ(CountChanged(frame, plain, 0, size / 5), 0) << "above the marks";
    EXPECT_GT(CountChanged(frame, plain, size / 5, size / 3), 0) << "at the marks";
    EXPECT_EQ(CountChanged(frame, plain, size / 3, size * 4 / 5), 0) << "above the caption";
    EXPECT_GT(CountChanged(frame, plain, size * 4 / 5, size), 0) << "the caption";
  }
}

TEST(VideoOverlay, TheCaptionFitsIntoVideosOf96Pixels) {
  RgbImage frame(96, 96);
  media::DrawOverlay({.step = 300, .score = 0.53}, &frame);
  EXPECT_GT(RedAt(frame, 80, 95), 0) << "the bar";
  for (int y = 80; y < 96; ++y) EXPECT_EQ(RedAt(frame, 95, y), 0) << y;
}

TEST(VideoOverlay, SuccessIsAGreenFrame) {
  RgbImage frame(96, 96);
  media::DrawOverlay({.step = 7, .score = 1.0}, &frame);
  EXPECT_EQ(frame.pixels[1], 0);
  media::DrawOverlay({.step = 7, .score = 1.0, .success = true}, &frame);
  EXPECT_GT(frame.pixels[1], 2 * frame.pixels[0]);
  EXPECT_GT(frame.pixels[3 * 50 * 96 + 1], 100);
}

TEST(VideoOverlay, HiddenMarksAndTinyImagesDoNoHarm) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> marks = {kNan, kNan, 0.5F, 0.5F, 1.0F, 1.0F, kNan, kNan};
  for (const int size : {1, 3, 40}) {
    RgbImage frame(size, size);
    media::DrawOverlay(
        {.n_marks = 2, .path = marks, .plan = marks, .n_executed = 9, .success = true}, &frame);
    EXPECT_EQ(std::ssize(frame.pixels), 3 * size * size);
  }
}

}  // namespace
}  // namespace dp_bench::rollout
