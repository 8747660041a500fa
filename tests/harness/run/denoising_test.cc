// Writes and reads denoising.json.
#include "run/denoising.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/error_of.h"

namespace dp_bench::run {
namespace {

TEST(Denoising, IsReadBackAsItWas) {
  const Denoising written = {
      .seed = 100000,
      .env_step = 8,
      .n_steps = 16,
      .first_executed = 1,
      .n_executed = 2,
      .action_dim = 7,
      .steps = {{.timestep = 99, .sample = {{1.25F, -2.5F}, {0.5F, 0.0F}}},
                {.timestep = {}, .sample = {{0.12344F, 1.0F}, {0.0F, 0.0F}}}}};
  const std::string text = ToJson(written).dump();
  const Denoising read = ParseDenoising(text, "here");
  EXPECT_EQ(ToJson(read).dump(), text);
  ASSERT_EQ(read.steps.size(), 2U);
  EXPECT_EQ(read.steps[0].timestep, 99);
  EXPECT_EQ(read.steps[0].sample, written.steps[0].sample);
  EXPECT_FALSE(read.steps[1].timestep);
  EXPECT_EQ(read.steps[1].sample[0][0], 0.1234F);  // 4 decimals are more than a plot shows
}

TEST(Denoising, WhatIsNoDenoisingIsNamed) {
  const std::string head = R"({"seed":0,"env_step":0,"n_steps":1,"first_executed":0,)"
                           R"("n_executed":1,"action_dim":1,"steps":)";
  for (const std::string& text :
       {std::string("{"), std::string("{}"), head + "[]}", head + R"([{"timestep":1}]})",
        head + R"([{"timestep":null,"sample":[]}]})",
        head + R"([{"timestep":1,"sample":[["x"]]}]})",
        head + R"([{"timestep":1,"sample":[[1],[1,2]]}]})",
        head + R"([{"timestep":1,"sample":[[1]]},{"timestep":0,"sample":[[1],[2]]}]})"}) {
    EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { ParseDenoising(text, "a/denoising.json"); }),
                testing::HasSubstr("a/denoising.json: not the denoising of a plan"))
        << text;
  }
}

}  // namespace
}  // namespace dp_bench::run
