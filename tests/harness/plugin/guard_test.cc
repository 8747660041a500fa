// Guarded objects behave like the wrapped ones, and add the plugin and the call to every error.
#include "plugin/guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "dp_bench/env_abilities.h"
#include "support/error_of.h"

namespace dp_bench::plugin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class FakeDataset final : public Dataset {
 public:
  const DatasetSpec& spec() const override { return spec_; }
  std::span<const std::int64_t> episode_ends() const override { return ends_; }
  void Read(int key, std::int64_t, std::int64_t, std::span<std::byte> out) const override {
    if (key == 1) throw Error(ErrorCode::kData, "chunk 3 is missing");
    if (key == 2) throw std::length_error("too long");
    if (key == 3) throw "a text";
    if (key == 4) throw std::bad_alloc();
    out[0] = std::byte{7};
  }

 private:
  DatasetSpec spec_ = {.fps = 10.0};
  std::vector<std::int64_t> ends_ = {3, 5};
};

class EnvWithAbilities final : public Env,
                               public StateAccess,
                               public Expert,
                               public PointerControl,
                               public CameraAccess,
                               public PictureMarks {
 public:
  const EnvSpec& spec() const override { return spec_; }
  void Reset(std::uint64_t seed) override { state_ = static_cast<double>(seed); }
  StepResult Step(std::span<const float>) override { return {}; }
  void Observe(const ObsWriter&) override { throw Error(ErrorCode::kShape, "buffer 0"); }
  void Render(RgbImage* frame) override { frame->pixels[0] = 9; }
  StateAccess* state_access() override { return this; }
  Expert* expert() override { return this; }
  PointerControl* pointer_control() override { return this; }
  CameraAccess* camera_access() override { return this; }
  PictureMarks* picture_marks() override { return this; }
  void Begin(std::uint64_t) override { throw Error(ErrorCode::kEnv, "no way"); }
  void Act(std::span<float> action) override { action[0] = 3.0F; }
  void PointerAction(double x, double, std::span<float> action) const override {
    action[0] = static_cast<float>(x);
  }
  CameraParameters Parameters(int, int, int) const override { throw 7; }
  void RenderCamera(int, RgbImage* frame) override { frame->pixels[0] = 5; }
  void StateMarks(int width, int, std::span<float> xy) const override {
    xy[0] = static_cast<float>(width);
  }
  void ActionMarks(std::span<const float>, int, int, std::span<float>) const override { throw 7; }
  void GetState(std::span<double> state) const override { state[0] = state_; }
  void SetState(std::span<const double>) override { throw Error(ErrorCode::kEnv, "not finite"); }

 private:
  EnvSpec spec_ = {.abilities = {.state_size = 1,
                                 .has_expert = true,
                                 .has_pointer_control = true,
                                 .cameras = {"head"},
                                 .n_marks = 1}};
  double state_ = 0.0;
};

std::unique_ptr<Dataset> GuardedDataset() {
  return GuardPlugin(std::make_unique<FakeDataset>(),
                     PluginPlace{PluginKind::kDataset, "fake", "/lib/libdpb_dataset_fake.so"});
}

std::unique_ptr<Env> GuardedEnv() {
  return GuardPlugin(std::make_unique<EnvWithAbilities>(),
                     PluginPlace{PluginKind::kEnv, "fake", "/lib/libdpb_env_fake.so"});
}

// The Error of reading a key: code and message.
Error ReadErrorOf(int key) {
  try {
    GuardedDataset()->Read(key, 0, 1, {});
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kInternal, "no error");
}

TEST(Guard, PassesCallsAndResultsThrough) {
  const auto dataset = GuardedDataset();
  std::byte out[1] = {};
  dataset->Read(0, 0, 1, out);
  EXPECT_EQ(out[0], std::byte{7});
  EXPECT_EQ(dataset->spec().fps, 10.0);
  EXPECT_THAT(dataset->episode_ends(), ElementsAre(3, 5));

  const auto env = GuardedEnv();
  env->Reset(11);
  RgbImage frame(1, 1);
  env->Render(&frame);
  EXPECT_EQ(frame.pixels[0], 9);
  ASSERT_NE(env->state_access(), nullptr);
  std::vector<double> state(env->spec().abilities.state_size);
  env->state_access()->GetState(state);
  EXPECT_THAT(state, ElementsAre(11.0));
}

TEST(Guard, AnErrorKeepsItsCodeAndGainsThePlace) {
  const Error error = ReadErrorOf(1);
  EXPECT_EQ(error.code(), ErrorCode::kData);
  EXPECT_STREQ(error.what(),
               "chunk 3 is missing\n"
               "  in dataset plugin 'fake' (libdpb_dataset_fake.so), during Read");
}

TEST(Guard, ForeignExceptionsBecomePluginErrors) {
  EXPECT_EQ(ReadErrorOf(2).code(), ErrorCode::kPlugin);
  EXPECT_THAT(ReadErrorOf(2).what(), HasSubstr("the plugin threw too long\n"));
  EXPECT_EQ(ReadErrorOf(3).code(), ErrorCode::kPlugin);
  EXPECT_THAT(ReadErrorOf(3).what(), HasSubstr("not a std::exception"));
}

TEST(Guard, MemoryThatRunsOutIsNoFaultOfThePlugin) {
  EXPECT_THROW(GuardedDataset()->Read(4, 0, 1, {}), std::bad_alloc);
}

TEST(Guard, AbilitiesPassThrough) {
  const auto env = GuardedEnv();
  float action[1] = {};
  env->expert()->Act(action);
  EXPECT_EQ(action[0], 3.0F);
  env->pointer_control()->PointerAction(0.25, 0.5, action);
  EXPECT_EQ(action[0], 0.25F);
  RgbImage frame(1, 1);
  env->camera_access()->RenderCamera(0, &frame);
  EXPECT_EQ(frame.pixels[0], 5);
  std::vector<float> xy(2);
  env->picture_marks()->StateMarks(64, 48, xy);
  EXPECT_EQ(xy[0], 64.0F);
}

TEST(Guard, AbilitiesAreGuardedToo) {
  const auto env = GuardedEnv();
  const auto at = [](const char* call) {
    return HasSubstr(std::string("in env plugin 'fake' (libdpb_env_fake.so), during ") + call);
  };
  EXPECT_THAT(MessageOf(ErrorCode::kEnv, [&] { env->state_access()->SetState({}); }),
              at("SetState"));
  EXPECT_THAT(MessageOf(ErrorCode::kEnv, [&] { env->expert()->Begin(0); }), at("Expert::Begin"));
  EXPECT_THAT(MessageOf(ErrorCode::kPlugin, [&] { env->camera_access()->Parameters(0, 1, 1); }),
              at("Parameters"));
  EXPECT_THAT(
      MessageOf(ErrorCode::kPlugin, [&] { env->picture_marks()->ActionMarks({}, 1, 1, {}); }),
      at("ActionMarks"));
}

}  // namespace
}  // namespace dp_bench::plugin
