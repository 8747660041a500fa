// The data file of a video, and invalid ones.
#include "run/video_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <string>

#include "run/safetensors.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::run {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Two plans of three actions [2] in four steps, with one mark.
VideoNotes TwoPlans() {
  return {.n_action_steps = 3,
          .action_dim = 2,
          .n_marks = 1,
          .plan_step = {0, 3},
          .plan = std::vector<float>(2 * 3 * 2, 0.25F),
          .plan_marks = std::vector<float>(2 * 3 * 2, 0.75F),
          .state_marks = std::vector<float>(5 * 2, 0.5F),
          .reward = {0.0, 0.1, 0.2, 1.0},
          .success = {0, 0, 0, 1}};
}

class VideoNotesTest : public testing::Test {
 protected:
  /// The error of reading after one array of a good file was changed.
  std::string ErrorWith(const std::string& name, const Array& array) {
    WriteVideoNotes(file_, TwoPlans());
    Safetensors content = ReadSafetensors(file_);
    content.tensors.insert_or_assign(name, array);
    WriteSafetensors(file_, content.tensors);
    return MessageOf(ErrorCode::kData, [this] { ReadVideoNotes(file_); });
  }

  std::string ErrorWithout(const std::string& name) {
    WriteVideoNotes(file_, TwoPlans());
    Safetensors content = ReadSafetensors(file_);
    content.tensors.erase(name);
    WriteSafetensors(file_, content.tensors);
    return MessageOf(ErrorCode::kData, [this] { ReadVideoNotes(file_); });
  }

  template <class T>
  static Array Filled(Shape shape, T value) {
    Array array(DTypeOf<T>::value, std::move(shape));
    std::ranges::fill(array.as<T>(), value);
    return array;
  }

  const ScratchFolder scratch_;
  const std::filesystem::path file_ = scratch_.path() / "test_7.safetensors";
};

TEST_F(VideoNotesTest, ReadsWhatWasWritten) {
  VideoNotes notes = TwoPlans();
  notes.state_marks[2] = kNan;
  WriteVideoNotes(file_, notes);
  const VideoNotes found = ReadVideoNotes(file_);
  EXPECT_EQ(found.n_action_steps, 3);
  EXPECT_EQ(found.action_dim, 2);
  EXPECT_EQ(found.n_marks, 1);
  EXPECT_EQ(found.plan_step, notes.plan_step);
  EXPECT_EQ(found.plan, notes.plan);
  EXPECT_EQ(found.plan_marks, notes.plan_marks);
  EXPECT_TRUE(std::isnan(found.state_marks[2]));
  EXPECT_EQ(found.state_marks.size(), notes.state_marks.size());
  EXPECT_EQ(found.reward, notes.reward);
  EXPECT_EQ(found.success, notes.success);
}

TEST_F(VideoNotesTest, WithoutMarksTheirArraysAreLeftOut) {
  VideoNotes notes = TwoPlans();
  notes.n_marks = 0;
  notes.plan_marks.clear();
  notes.state_marks.clear();
  WriteVideoNotes(file_, notes);
  EXPECT_EQ(ReadSafetensors(file_).tensors.size(), 4U);
  EXPECT_EQ(ReadVideoNotes(file_).n_marks, 0);
}

TEST_F(VideoNotesTest, AnEpisodeThatEndedBeforeItsFirstPlanIsOne) {
  WriteVideoNotes(
      file_, {.n_action_steps = 8, .action_dim = 2, .n_marks = 1, .state_marks = {0.5F, 0.5F}});
  const VideoNotes found = ReadVideoNotes(file_);
  EXPECT_TRUE(found.plan_step.empty() && found.reward.empty());
  EXPECT_EQ(found.n_action_steps, 8);
}

TEST_F(VideoNotesTest, AMissingArrayIsNamed) {
  for (const char* name : {"plan_step", "plan", "plan_marks", "state_marks", "reward", "success"}) {
    EXPECT_THAT(ErrorWithout(name),
                AllOf(HasSubstr("test_7.safetensors"), HasSubstr("'" + std::string(name) + "'"),
                      HasSubstr("missing")));
  }
}

TEST_F(VideoNotesTest, AWrongDtypeOrShapeIsNamedWithWhatWasWanted) {
  EXPECT_THAT(ErrorWith("success", Filled<float>({4}, 0.0F)),
              AllOf(HasSubstr("'success' is float32 [4]"), HasSubstr("expected uint8 [4]")));
  EXPECT_THAT(ErrorWith("plan_step", Filled<std::int64_t>({3}, 0)),
              HasSubstr("'plan_step' is int64 [3]; expected int64 [2]"));
  EXPECT_THAT(ErrorWith("reward", Filled<double>({4, 1}, 0.0)),
              HasSubstr("'reward' has shape [4, 1]; expected 1 dimensions"));
  EXPECT_THAT(ErrorWith("reward", Filled<double>({3}, 0.0)), HasSubstr("'success' is uint8 [4]"));
  EXPECT_THAT(ErrorWith("plan", Filled<float>({2, 6}, 0.0F)), HasSubstr("'plan' has shape [2, 6]"));
  EXPECT_THAT(ErrorWith("plan", Filled<double>({2, 3, 2}, 0.0)), HasSubstr("'plan' is float64"));
  EXPECT_THAT(ErrorWith("plan_marks", Filled<float>({2, 3, 2, 2}, 0.0F)),
              HasSubstr("expected float32 [2, 3, 1, 2]"));
  EXPECT_THAT(ErrorWith("state_marks", Filled<float>({4, 1, 2}, 0.0F)),
              HasSubstr("expected float32 [5, 1, 2]"));
  EXPECT_THAT(ErrorWith("state_marks", Filled<float>({5, 0, 2}, 0.0F)),
              HasSubstr("expected at least one"));
}

TEST_F(VideoNotesTest, ImpossibleNumbersAreNamed) {
  EXPECT_THAT(ErrorWith("plan_step", Filled<std::int64_t>({2}, 0)),
              HasSubstr("'plan_step' has 0; expected ascending steps from 0 to 4"));
  EXPECT_THAT(ErrorWith("plan_step", Filled<std::int64_t>({2}, -1)), HasSubstr("has -1"));
  EXPECT_THAT(ErrorWith("plan_step", Filled<std::int64_t>({2}, 5)), HasSubstr("has 5"));
  EXPECT_THAT(ErrorWith("plan", Filled<float>({2, 3, 2}, kNan)), HasSubstr("'plan' has nan"));
  EXPECT_THAT(ErrorWith("reward", Filled<double>({4}, HUGE_VAL)), HasSubstr("'reward' has inf"));
  EXPECT_THAT(ErrorWith("success", Filled<std::uint8_t>({4}, 2)),
              HasSubstr("other numbers than 0 and 1"));
  EXPECT_THAT(ErrorWith("plan_marks", Filled<float>({2, 3, 1, 2}, 1.5F)),
              HasSubstr("'plan_marks' has 1.5; expected 0 to 1 or NaN"));
  EXPECT_THAT(ErrorWith("state_marks", Filled<float>({5, 1, 2}, -HUGE_VALF)),
              HasSubstr("'state_marks' has -inf"));
}

TEST_F(VideoNotesTest, SizesOfAnArrayWithoutElementsAreLimited) {
  EXPECT_THAT(ErrorWith("plan", Filled<float>({0, 1, std::int64_t{1} << 40}, 0.0F)),
              HasSubstr("expected at most 1000000 in each dimension"));
}

TEST_F(VideoNotesTest, WhatIsNoSuchFileIsRefused) {
  EXPECT_EQ(CodeOf([this] { ReadVideoNotes(file_); }), ErrorCode::kIo);
  using std::string_literals::operator""s;
  std::ofstream(file_) << "\x10\0\0\0\0\0\0\0 no header"s;
  EXPECT_THAT(MessageOf(ErrorCode::kData, [this] { ReadVideoNotes(file_); }),
              HasSubstr("test_7.safetensors"));
}

}  // namespace
}  // namespace dp_bench::run
