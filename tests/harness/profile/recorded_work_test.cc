#include "profile/recorded_work.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <chrono>
#include <thread>
#include <vector>

namespace dp_bench::profile {
namespace {

TEST(RecordedWork, BeginsAfterAllEventsBeforeIt) {
  const auto work = [] {
    RECORD_USER_SCOPE("step");
    torch::ones({2}).sum();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // so that the scope ends much later
  };
  std::vector<OpEvent> events;
  RecordWork(torch::kCPU, 1, "step", &events, work);
  const std::size_t n_before = events.size();
  RecordWork(torch::kCPU, 1, "step", &events, work);
  ASSERT_GT(events.size(), n_before);
  for (std::size_t i = 0; i < n_before; ++i) {
    EXPECT_LT(events[i].end_us, events[n_before].begin_us) << events[i].name;
  }
}

}  // namespace
}  // namespace dp_bench::profile
