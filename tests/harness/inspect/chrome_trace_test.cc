// The trace of a real training step follows the rules of the format.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "profile/op_recorder.h"

namespace dp_bench::profile {
namespace {

using Json = nlohmann::json;

std::vector<OpEvent> RecordSteps() {
  torch::nn::Sequential net(torch::nn::Linear(8, 16), torch::nn::ReLU(), torch::nn::Linear(16, 2));
  OpRecorder recorder;
  for (int i = 0; i < 3; ++i) {
    RECORD_USER_SCOPE("a \"step\" \xff");
    net->forward(torch::ones({4, 8})).square().sum().backward();
  }
  return recorder.TakeEvents();
}

std::int64_t Nanoseconds(const Json& us) { return std::llround(us.get<double>() * 1e3); }

TEST(ChromeTrace, HoldsCompleteEventsThatNestOnEachThread) {
  const std::vector<OpEvent> recorded = RecordSteps();
  const Json trace = Json::parse(ChromeTrace(recorded, "test"));
  std::map<Json, std::vector<std::int64_t>> ends;  // of the events around the current one
  std::map<Json, std::int64_t> last_begin;
  std::size_t n = 0;
  for (const Json& event : trace.at("traceEvents")) {
    EXPECT_TRUE(event.at("name").is_string());
    EXPECT_TRUE(event.at("pid").is_number());
    if (event.at("ph") == "M") continue;
    ASSERT_EQ(event.at("ph"), "X");
    ++n;
    const Json& thread = event.at("tid");
    const std::int64_t begin = Nanoseconds(event.at("ts"));
    const std::int64_t end = begin + Nanoseconds(event.at("dur"));
    EXPECT_GE(end, begin);
    EXPECT_GE(begin, last_begin[thread]);
    last_begin[thread] = begin;
    std::vector<std::int64_t>& around = ends[thread];
    while (!around.empty() && around.back() <= begin && around.back() < end) around.pop_back();
    if (!around.empty()) {
      EXPECT_LE(end, around.back()) << event;
    }
    around.push_back(end);
  }
  EXPECT_EQ(n, recorded.size());
  EXPECT_GT(n, 30U);
}

TEST(ChromeTrace, NamesProcessAndThreadsAndWhatWasCounted) {
  const Json trace = Json::parse(ChromeTrace(RecordSteps(), "dp_bench: unet on pusht"));
  const Json& events = trace.at("traceEvents");
  EXPECT_EQ(events[0].at("name"), "process_name");
  EXPECT_EQ(events[0].at("args").at("name"), "dp_bench: unet on pusht");
  EXPECT_EQ(events[1].at("name"), "thread_name");
  bool has_flops = false;
  for (const Json& event : events) {
    if (event.at("name") != "aten::addmm" || !event.at("args").contains("flops")) continue;
    has_flops = true;
    EXPECT_GT(event.at("args").at("flops").get<double>(), 0.0);
  }
  EXPECT_TRUE(has_flops);
}

}  // namespace
}  // namespace dp_bench::profile
