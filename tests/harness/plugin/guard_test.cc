// Guarded objects behave like the wrapped ones, and add the plugin and the call to every error.
#include "plugin/guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/call_watch.h"
#include "dp_bench/env_abilities.h"
#include "plugin/obs_memory.h"
#include "support/error_of.h"

namespace dp_bench::plugin {
namespace {

using testing::AllOf;
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
  DatasetSpec spec_ = {.keys = {{.name = "action", .shape = {1}}}, .fps = 10.0};
  std::vector<std::int64_t> ends_ = {3, 5};
};

// Does what a test tells it to.
class ScriptedEnv final : public Env,
                          public StateAccess,
                          public Expert,
                          public PointerControl,
                          public CameraAccess,
                          public PictureMarks {
 public:
  ScriptedEnv() {
    spec_.shape_meta.obs = {
        {.name = "picture", .type = KeyType::kRgb, .shape = {3, 8, 8}, .dtype = DType::kUInt8},
        {.name = "position", .shape = {2}}};
    spec_.shape_meta.action = {.name = "action", .shape = {1}};
    spec_.action_low = {-1.0F};
    spec_.action_high = {1.0F};
    spec_.control_hz = 10.0;
    spec_.max_steps = 5;
    spec_.abilities = {.state_size = 1,
                       .has_expert = true,
                       .has_pointer_control = true,
                       .cameras = {"head"},
                       .n_marks = 1};
  }

  std::function<void(const ObsWriter&)> on_observe = [](const ObsWriter& obs) {
    std::ranges::fill(obs.Buffer<std::uint8_t>("picture"), std::uint8_t{7});
    std::ranges::fill(obs.Buffer<float>("position"), 0.5F);
  };
  StepResult result;
  std::function<void(RgbImage*)> on_render = [](RgbImage* frame) { frame->pixels[0] = 9; };

  const EnvSpec& spec() const override { return spec_; }
  void Reset(std::uint64_t seed) override { state_ = static_cast<double>(seed); }
  StepResult Step(std::span<const float>) override { return result; }
  void Observe(const ObsWriter& obs) override { on_observe(obs); }
  void Render(RgbImage* frame) override { on_render(frame); }
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

  EnvSpec spec_;

 private:
  double state_ = 0.0;
};

std::unique_ptr<Dataset> GuardedDataset() {
  return GuardPlugin(std::make_unique<FakeDataset>(),
                     PluginPlace{PluginKind::kDataset, "fake", "/lib/libdpb_dataset_fake.so"});
}

std::unique_ptr<Env> Guarded(std::unique_ptr<ScriptedEnv> env) {
  return GuardPlugin(std::move(env),
                     PluginPlace{PluginKind::kEnv, "fake", "/lib/libdpb_env_fake.so"});
}

// The guarded env after Reset, and the env inside.
struct Running {
  Running() {
    auto scripted = std::make_unique<ScriptedEnv>();
    inside = scripted.get();
    env = Guarded(std::move(scripted));
    env->Reset(11);
  }
  std::string ObserveErrorOf(ErrorCode code) {
    ObsMemory obs(env->spec());
    return MessageOf(code, [&] { obs.Observe(*env); });
  }

  std::unique_ptr<Env> env;
  ScriptedEnv* inside;
};

constexpr std::array<float, 1> kAction = {0.25F};

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

  Running running;
  Env* const env = running.env.get();
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
  EXPECT_THAT(ReadErrorOf(2).what(), HasSubstr("the plugin threw too long; expected no exception"));
  EXPECT_EQ(ReadErrorOf(3).code(), ErrorCode::kPlugin);
  EXPECT_THAT(ReadErrorOf(3).what(), HasSubstr("not a std::exception"));
}

TEST(Guard, MemoryThatRunsOutIsNoFaultOfThePlugin) {
  EXPECT_THROW(GuardedDataset()->Read(4, 0, 1, {}), std::bad_alloc);
}

TEST(Guard, AbilitiesPassThrough) {
  Running running;
  Env* const env = running.env.get();
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
  Running running;
  Env* const env = running.env.get();
  const auto at = [](const char* call) {
    return HasSubstr(std::string("in env plugin 'fake' (libdpb_env_fake.so), during ") + call);
  };
  const std::array<double, 1> state = {0.0};
  EXPECT_THAT(MessageOf(ErrorCode::kEnv, [&] { env->state_access()->SetState(state); }),
              at("SetState"));
  EXPECT_THAT(MessageOf(ErrorCode::kEnv, [&] { env->expert()->Begin(0); }), at("Expert::Begin"));
  EXPECT_THAT(MessageOf(ErrorCode::kPlugin, [&] { env->camera_access()->Parameters(0, 1, 1); }),
              at("Parameters"));
  EXPECT_THAT(
      MessageOf(ErrorCode::kPlugin, [&] { env->picture_marks()->ActionMarks(kAction, 1, 1, {}); }),
      at("ActionMarks"));
}

TEST(Guard, AllFaultsOfASpecAreListedAtOnce) {
  auto env = std::make_unique<ScriptedEnv>();
  env->spec_.control_hz = 0.0;
  env->spec_.action_low = {};
  std::swap(env->spec_.shape_meta.obs[0], env->spec_.shape_meta.obs[1]);
  const std::string message = MessageOf(ErrorCode::kPlugin, [&] { Guarded(std::move(env)); });
  EXPECT_THAT(message,
              AllOf(HasSubstr("found 'position' before 'picture'"),
                    HasSubstr("action_low: expected 1 numbers"),
                    HasSubstr("control_hz: expected env steps per second, more than 0, found 0"),
                    HasSubstr("in env plugin 'fake'")));
}

TEST(Guard, CallsInTheWrongOrderAreRefusedBeforeThePluginSeesThem) {
  const auto env = Guarded(std::make_unique<ScriptedEnv>());
  ObsMemory obs(env->spec());
  RgbImage frame(1, 1);
  for (const auto& call : std::initializer_list<std::function<void()>>{
           [&] { env->Step(kAction); }, [&] { obs.Observe(*env); }, [&] { env->Render(&frame); }}) {
    EXPECT_THAT(MessageOf(ErrorCode::kEnv, call), HasSubstr("expected a call of Reset first"));
  }
  Running running;
  running.inside->result.terminated = true;
  running.env->Step(kAction);
  EXPECT_THAT(MessageOf(ErrorCode::kEnv, [&] { running.env->Step(kAction); }),
              HasSubstr("expected Reset, found another Step"));
  running.env->Reset(0);
  EXPECT_NO_THROW(running.env->Step(kAction));
}

TEST(Guard, ActionsOfAWrongSizeOrNotFiniteAreRefused) {
  const Running running;
  EXPECT_THAT(MessageOf(ErrorCode::kShape, [&] { running.env->Step({}); }),
              HasSubstr("expected an action of 1 numbers, found 0"));
  const std::array<float, 1> nan = {std::numeric_limits<float>::quiet_NaN()};
  EXPECT_THAT(MessageOf(ErrorCode::kNumeric, [&] { running.env->Step(nan); }),
              HasSubstr("found nan in dimension 0"));
}

TEST(Guard, ResultsOfAStepMustBeFiniteAndComplete) {
  Running running;
  running.inside->result.reward = std::numeric_limits<double>::infinity();
  EXPECT_THAT(MessageOf(ErrorCode::kNumeric, [&] { running.env->Step(kAction); }),
              HasSubstr("reward = inf, expected a finite number"));
  const std::array<double, 1> metrics = {1.0};
  running.inside->result = {.metrics = metrics};
  EXPECT_THAT(MessageOf(ErrorCode::kPlugin, [&] { running.env->Step(kAction); }),
              HasSubstr("the env reported 1 metrics, its spec lists 0"));
}

TEST(Guard, ObservationsArriveUnchanged) {
  Running running;
  ObsMemory obs(running.env->spec());
  for (int i = 0; i < 2; ++i) {  // the second picture is not checked
    obs.Observe(*running.env);
    EXPECT_THAT(obs[0], testing::Each(std::byte{7}));
    const std::array<float, 2> position = {0.5F, 0.5F};
    EXPECT_TRUE(std::ranges::equal(obs[1], std::as_bytes(std::span(position))));
  }
}

TEST(Guard, WritesOutsideOfABufferAreFound) {
  for (const std::ptrdiff_t where : {-1, 2}) {
    Running running;
    running.inside->on_observe = [&](const ObsWriter& obs) {
      std::ranges::fill(obs.Buffer<std::uint8_t>("picture"), std::uint8_t{7});
      std::ranges::fill(obs.Buffer<float>("position"), 0.5F);
      obs.Buffer<float>("position").data()[where] = 0.0F;
    };
    EXPECT_THAT(
        running.ObserveErrorOf(ErrorCode::kPlugin),
        AllOf(HasSubstr("'position': expected 8 bytes, [2] float32, found a write"),
              HasSubstr(where < 0 ? "before them" : "after them"), HasSubstr("during Observe")));
  }
}

TEST(Guard, ElementsThatAreNeverWrittenAreFound) {
  Running running;
  running.inside->on_observe = [](const ObsWriter& obs) {
    std::ranges::fill(obs.Buffer<std::uint8_t>("picture"), std::uint8_t{7});
    obs.Buffer<float>("position")[0] = 0.5F;
  };
  EXPECT_THAT(running.ObserveErrorOf(ErrorCode::kPlugin),
              HasSubstr("'position': expected 2 numbers, found number 1 unwritten"));
  running.inside->on_observe = [](const ObsWriter& obs) {
    std::ranges::fill(obs.Buffer<float>("position"), 0.5F);
    const std::span<std::uint8_t> picture = obs.Buffer<std::uint8_t>("picture");
    for (std::size_t i = 0; i < picture.size(); i += 3) picture[i] = 200;  // red alone
  };
  EXPECT_THAT(running.ObserveErrorOf(ErrorCode::kPlugin),
              HasSubstr("'picture': expected 192 bytes, [8, 8, 3] uint8, found bytes unwritten "
                        "between 0 and 64"));
}

TEST(Guard, PicturesOfEveryValueCountAsWritten) {
  for (int value = 0; value < 256; ++value) {
    Running running;
    running.inside->on_observe = [value](const ObsWriter& obs) {
      std::ranges::fill(obs.Buffer<std::uint8_t>("picture"), static_cast<std::uint8_t>(value));
      std::ranges::fill(obs.Buffer<float>("position"), 0.5F);
    };
    ObsMemory obs(running.env->spec());
    EXPECT_NO_THROW(obs.Observe(*running.env)) << value;
  }
}

TEST(Guard, NumbersThatAreNotFiniteAreFound) {
  Running running;
  running.inside->on_observe = [](const ObsWriter& obs) {
    std::ranges::fill(obs.Buffer<std::uint8_t>("picture"), std::uint8_t{7});
    std::ranges::fill(obs.Buffer<float>("position"), std::numeric_limits<float>::infinity());
  };
  EXPECT_THAT(running.ObserveErrorOf(ErrorCode::kNumeric),
              HasSubstr("'position': expected finite numbers, found inf in number 0 of 2"));
}

TEST(Guard, AFrameKeepsItsSize) {
  Running running;
  running.inside->on_render = [](RgbImage* frame) { *frame = RgbImage(320, 240); };
  RgbImage frame(4, 2);
  EXPECT_THAT(MessageOf(ErrorCode::kPlugin, [&] { running.env->Render(&frame); }),
              HasSubstr("expected a picture of 4 x 2 in 24 bytes, found 320 x 240"));
}

TEST(Guard, ACallIsKnownToBeUnderWay) {
  Running running;
  core::OpenCalls calls;
  calls.Refresh();
  EXPECT_EQ(calls.StillOpen(), "");
  running.inside->on_render = [&calls](RgbImage*) {
    calls.Refresh();
    EXPECT_EQ(calls.StillOpen(), "env plugin 'fake', during Render");
  };
  RgbImage frame(1, 1);
  running.env->Render(&frame);
  EXPECT_EQ(calls.StillOpen(), "");
}

TEST(Guard, ACallOfAnotherObjectAtTheSameAddressIsNotTheOldCall) {
  std::optional<core::CallWatch> watch;
  core::OpenCalls calls;
  watch.emplace("the first");
  {
    const core::CallWatch::Call call(*watch, "Step");
    calls.Refresh();
    EXPECT_EQ(calls.StillOpen(), "the first, during Step");
  }
  watch.emplace("the second");
  const core::CallWatch::Call call(*watch, "Step");
  EXPECT_EQ(calls.StillOpen(), "");
}

}  // namespace
}  // namespace dp_bench::plugin
