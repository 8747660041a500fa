// Guarded objects behave as what they wrap, and add the plugin and the call to every error.
#include "plugin/guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "dp_bench/env_abilities.h"

namespace dp_bench {
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
    out[0] = std::byte{7};
  }

 private:
  DatasetSpec spec_ = {.fps = 10.0};
  std::vector<std::int64_t> ends_ = {3, 5};
};

class EnvWithState final : public Env, public StateAccess {
 public:
  const EnvSpec& spec() const override { return spec_; }
  void Reset(std::uint64_t seed) override { state_ = static_cast<double>(seed); }
  StepResult Step(std::span<const float>) override { return {}; }
  void Observe(ObsBuffers) override { throw Error(ErrorCode::kShape, "buffer 0"); }
  void Render(RgbImage* frame) override { frame->pixels[0] = 9; }
  StateAccess* state_access() override { return this; }
  std::size_t state_size() const override { return 1; }
  void GetState(std::span<double> state) const override { state[0] = state_; }
  void SetState(std::span<const double>) override { throw Error(ErrorCode::kEnv, "not finite"); }

 private:
  EnvSpec spec_;
  double state_ = 0.0;
};

std::unique_ptr<Dataset> GuardedDataset() {
  return GuardPlugin(std::make_unique<FakeDataset>(),
                     PluginPlace{PluginKind::kDataset, "fake", "/lib/libdpb_dataset_fake.so"});
}

std::unique_ptr<Env> GuardedEnv() {
  return GuardPlugin(std::make_unique<EnvWithState>(),
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
  std::vector<double> state(env->state_access()->state_size());
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

TEST(Guard, StateAccessIsGuardedToo) {
  const auto env = GuardedEnv();
  try {
    env->state_access()->SetState({});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("in env plugin 'fake' (libdpb_env_fake.so), during SetState"));
  }
}

}  // namespace
}  // namespace dp_bench
