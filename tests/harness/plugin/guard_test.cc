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
#include "plugin/obs_memory.h"
#include "support/env_state.h"
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
  void DoRead(int key, std::int64_t, std::int64_t, std::span<std::byte> out) const override {
    if (key == 1) throw Error(ErrorCode::kData, "chunk 3 is missing");
    if (key == 2) throw std::length_error("too long");
    if (key == 3) throw "a text";
    if (key == 4) throw std::bad_alloc();
    out[0] = std::byte{7};
  }

 private:
  DatasetSpec spec_ = {.keys = {{.name = "action", .shape = {1}},
                                {.name = "b", .shape = {1}},
                                {.name = "c", .shape = {1}},
                                {.name = "d", .shape = {1}},
                                {.name = "e", .shape = {1}}},
                       .fps = 10.0};
  std::vector<std::int64_t> ends_ = {3, 5};
};

void Fill(const ObsWriter& obs, std::uint8_t image, float position) {
  std::ranges::fill(obs.Buffer<std::uint8_t>("image"), image);
  std::ranges::fill(obs.Buffer<float>("position"), position);
}

// Does what a test tells it to.
class ScriptedEnv final : public Env {
 public:
  static EnvSpec Describe() {
    EnvSpec spec;
    spec.shape_meta.obs = {
        {.name = "image", .type = KeyType::kRgb, .shape = {3, 8, 8}, .dtype = DType::kUInt8},
        {.name = "position", .shape = {2}}};
    spec.shape_meta.action = {.name = "action", .shape = {1}};
    spec.action_low = {-1.0F};
    spec.action_high = {1.0F};
    spec.control_hz = 10.0;
    spec.max_steps = 5;
    spec.abilities = {.state_size = 1,
                      .has_expert = true,
                      .has_pointer_control = true,
                      .cameras = {"head"},
                      .n_marks = 1};
    return spec;
  }

  explicit ScriptedEnv(EnvSpec spec = Describe()) : Env(std::move(spec)) {}

  std::function<void(const ObsWriter&)> on_observe = [](const ObsWriter& obs) {
    Fill(obs, 7, 0.5F);
  };
  StepResult result;
  bool throws_in_step = false;
  std::function<void(RgbImage*)> on_render = [](RgbImage* frame) { frame->pixels[0] = 9; };

 private:
  void DoReset(std::uint64_t seed) override { state_ = static_cast<double>(seed); }
  StepResult DoStep(std::span<const float>) override {
    if (throws_in_step) throw Error(ErrorCode::kEnv, "it fell");
    return result;
  }
  void DoObserve(const ObsWriter& obs) override { on_observe(obs); }
  void DoRender(RgbImage* frame) override { on_render(frame); }
  void DoBeginExpert(std::uint64_t) override { throw Error(ErrorCode::kEnv, "no way"); }
  void DoAct(std::span<float> action) override { action[0] = 3.0F; }
  void DoPointerAction(double x, double, std::span<float> action) const override {
    action[0] = static_cast<float>(x);
  }
  CameraParameters DoGetCamera(int, int, int) const override { throw 7; }
  void DoRenderCamera(int, RgbImage* frame) override { frame->pixels[0] = 5; }
  void DoMarks(std::span<const float> action, int width, int, std::span<float> xy) const override {
    if (!action.empty()) throw 7;
    xy[0] = static_cast<float>(width);
  }
  void DoGetState(std::span<double> state) const override { state[0] = state_; }
  void DoSetState(std::span<const double>) override { throw Error(ErrorCode::kEnv, "not finite"); }

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

std::string ReadErrorOf(ErrorCode code, int key) {
  std::array<std::byte, sizeof(float)> out = {};
  return MessageOf(code, [&] { GuardedDataset()->Read(key, 0, 1, out); });
}

TEST(Guard, PassesCallsAndResultsThrough) {
  const auto dataset = GuardedDataset();
  std::array<std::byte, sizeof(float)> out = {};
  dataset->Read(0, 0, 1, out);
  EXPECT_EQ(out[0], std::byte{7});
  EXPECT_EQ(dataset->spec().fps, 10.0);
  EXPECT_THAT(dataset->episode_ends(), ElementsAre(3, 5));

  Running running;
  Env* const env = running.env.get();
  RgbImage frame(1, 1);
  env->Render(&frame);
  EXPECT_EQ(frame.pixels[0], 9);
  EXPECT_THAT(StateOf(*env), ElementsAre(11.0));
}

TEST(Guard, AnErrorKeepsItsCodeAndGainsThePlace) {
  EXPECT_EQ(ReadErrorOf(ErrorCode::kData, 1),
            "chunk 3 is missing\n"
            "  in dataset plugin 'fake' (libdpb_dataset_fake.so), during Read");
}

TEST(Guard, ForeignExceptionsBecomePluginErrors) {
  EXPECT_THAT(ReadErrorOf(ErrorCode::kPlugin, 2),
              HasSubstr("the plugin threw too long; expected no exception"));
  EXPECT_THAT(ReadErrorOf(ErrorCode::kPlugin, 3), HasSubstr("not a std::exception"));
}

TEST(Guard, MemoryThatRunsOutIsNoFaultOfThePlugin) {
  std::array<std::byte, sizeof(float)> out = {};
  EXPECT_THROW(GuardedDataset()->Read(4, 0, 1, out), std::bad_alloc);
}

TEST(Guard, AbilitiesPassThrough) {
  Running running;
  Env* const env = running.env.get();
  float action[1] = {};
  env->Act(action);
  EXPECT_EQ(action[0], 3.0F);
  env->PointerAction(0.25, 0.5, action);
  EXPECT_EQ(action[0], 0.25F);
  RgbImage frame(1, 1);
  env->RenderCamera(0, &frame);
  EXPECT_EQ(frame.pixels[0], 5);
  std::vector<float> xy(2);
  env->Marks({}, 64, 48, xy);
  EXPECT_EQ(xy[0], 64.0F);
}

TEST(Guard, AbilitiesAreGuardedToo) {
  Running running;
  Env* const env = running.env.get();
  const auto at = [](const char* call) {
    return HasSubstr(std::string("in env plugin 'fake' (libdpb_env_fake.so), during ") + call);
  };
  const std::array<double, 1> state = {0.0};
  EXPECT_THAT(MessageOf(ErrorCode::kEnv, [&] { env->SetState(state); }), at("SetState"));
  EXPECT_THAT(MessageOf(ErrorCode::kEnv, [&] { env->BeginExpert(0); }), at("BeginExpert"));
  EXPECT_THAT(MessageOf(ErrorCode::kPlugin, [&] { env->GetCamera(0, 1, 1); }), at("GetCamera"));
  std::vector<float> xy(2);
  EXPECT_THAT(MessageOf(ErrorCode::kPlugin, [&] { env->Marks(kAction, 1, 1, xy); }), at("Marks"));
}

TEST(Guard, AllFaultsOfASpecAreListedAtOnce) {
  EnvSpec spec = ScriptedEnv::Describe();
  spec.control_hz = 0.0;
  spec.action_low = {};
  spec.shape_meta.obs[0].name = "position";
  const std::string message = MessageOf(
      ErrorCode::kPlugin, [&] { Guarded(std::make_unique<ScriptedEnv>(std::move(spec))); });
  EXPECT_THAT(message,
              AllOf(HasSubstr("each once, found 'position' before 'position'"),
                    HasSubstr("action_low: expected 1 numbers"),
                    HasSubstr("control_hz: expected env steps per second, more than 0, found 0"),
                    HasSubstr("in env plugin 'fake'")));
}

TEST(Guard, KeysNeedNoOrder) {
  EnvSpec spec = ScriptedEnv::Describe();
  std::swap(spec.shape_meta.obs[0], spec.shape_meta.obs[1]);
  const auto env = Guarded(std::make_unique<ScriptedEnv>(std::move(spec)));
  EXPECT_EQ(env->spec(), ScriptedEnv::Describe());
}

TEST(Guard, AnAbilityThatIsNotDeclaredIsRefused) {
  EnvSpec spec = ScriptedEnv::Describe();
  spec.abilities = {};
  const auto env = Guarded(std::make_unique<ScriptedEnv>(std::move(spec)));
  env->Reset(1);
  float action[1] = {};
  RgbImage frame(1, 1);
  std::vector<float> xy(2);
  std::vector<double> state(1);
  for (const auto& [ability, call] :
       std::initializer_list<std::pair<std::string, std::function<void()>>>{
           {"state_size", [&] { env->GetState(state); }},
           {"state_size", [&] { env->SetState(state); }},
           {"has_expert", [&] { env->BeginExpert(0); }},
           {"has_expert", [&] { env->Act(action); }},
           {"has_pointer_control", [&] { env->PointerAction(0.0, 0.0, action); }},
           {"cameras", [&] { env->GetCamera(0, 1, 1); }},
           {"cameras", [&] { env->RenderCamera(0, &frame); }},
           {"n_marks", [&] { env->Marks({}, 1, 1, xy); }},
           {"n_marks", [&] { env->Marks(kAction, 1, 1, xy); }}}) {
    EXPECT_THAT(MessageOf(ErrorCode::kUsage, call), HasSubstr("does not declare " + ability));
  }
}

TEST(Guard, AbilitiesAreCheckedToo) {
  const auto env = Guarded(std::make_unique<ScriptedEnv>());
  float action[2] = {};
  RgbImage frame(1, 1);
  std::vector<float> xy(3);
  std::vector<double> state(1);
  for (const auto& call : std::initializer_list<std::function<void()>>{
           [&] { env->GetState(state); }, [&] { env->BeginExpert(0); },
           [&] { env->Act(std::span(action).first(1)); }, [&] { env->GetCamera(0, 1, 1); },
           [&] { env->RenderCamera(0, &frame); }, [&] { env->Marks({}, 1, 1, xy); }}) {
    EXPECT_THAT(MessageOf(ErrorCode::kEnv, call), HasSubstr("expected a call of Reset first"));
  }
  env->Reset(1);
  for (const auto& call : std::initializer_list<std::function<void()>>{
           [&] { env->Act(action); }, [&] { env->PointerAction(0.0, 0.0, action); },
           [&] { env->Marks({}, 1, 1, xy); }, [&] { env->Marks(action, 1, 1, xy); }}) {
    EXPECT_EQ(CodeOf(call), ErrorCode::kShape);
  }
  EXPECT_EQ(CodeOf([&] { env->GetCamera(1, 1, 1); }), ErrorCode::kEnv);
  state[0] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(CodeOf([&] { env->SetState(state); }), ErrorCode::kEnv);
  state.resize(2);
  EXPECT_EQ(CodeOf([&] { env->SetState(state); }), ErrorCode::kEnv);
}

TEST(Guard, AfterAStepThatFailedResetIsDue) {
  Running running;
  running.inside->throws_in_step = true;
  EXPECT_EQ(CodeOf([&] { running.env->Step(kAction); }), ErrorCode::kEnv);
  EXPECT_THAT(MessageOf(ErrorCode::kEnv, [&] { running.env->Step(kAction); }),
              HasSubstr("the last step failed: expected a call of Reset first"));
  running.env->Reset(0);
  running.inside->throws_in_step = false;
  EXPECT_NO_THROW(running.env->Step(kAction));
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
  for (int i = 0; i < 2; ++i) {  // the second image is not checked
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
      Fill(obs, 7, 0.5F);
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
    std::ranges::fill(obs.Buffer<std::uint8_t>("image"), std::uint8_t{7});
    obs.Buffer<float>("position")[0] = 0.5F;
  };
  EXPECT_THAT(running.ObserveErrorOf(ErrorCode::kPlugin),
              HasSubstr("'position': expected 2 numbers, found number 1 unwritten"));
  running.inside->on_observe = [](const ObsWriter& obs) {
    std::ranges::fill(obs.Buffer<float>("position"), 0.5F);
    const std::span<std::uint8_t> image = obs.Buffer<std::uint8_t>("image");
    for (std::size_t i = 0; i < image.size(); i += 3) image[i] = 200;  // red alone
  };
  EXPECT_THAT(running.ObserveErrorOf(ErrorCode::kPlugin),
              HasSubstr("'image': expected 192 bytes, [8, 8, 3] uint8, found bytes unwritten "
                        "between 0 and 64"));
}

TEST(Guard, ImagesOfEveryValueCountAsWritten) {
  for (int value = 0; value < 256; ++value) {
    Running running;
    running.inside->on_observe = [value](const ObsWriter& obs) {
      Fill(obs, static_cast<std::uint8_t>(value), 0.5F);
    };
    ObsMemory obs(running.env->spec());
    EXPECT_NO_THROW(obs.Observe(*running.env)) << value;
  }
}

TEST(Guard, NumbersThatAreNotFiniteAreFound) {
  Running running;
  running.inside->on_observe = [](const ObsWriter& obs) {
    Fill(obs, 7, std::numeric_limits<float>::infinity());
  };
  EXPECT_THAT(running.ObserveErrorOf(ErrorCode::kNumeric),
              HasSubstr("'position': expected finite numbers, found inf in number 0 of 2"));
}

TEST(Guard, AFrameKeepsItsSize) {
  Running running;
  running.inside->on_render = [](RgbImage* frame) { *frame = RgbImage(320, 240); };
  RgbImage frame(4, 2);
  EXPECT_THAT(MessageOf(ErrorCode::kPlugin, [&] { running.env->Render(&frame); }),
              HasSubstr("expected an image of 4 x 2 in 24 bytes, found 320 x 240"));
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
