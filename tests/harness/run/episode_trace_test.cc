// The recorded steps of an episode.
#include "run/episode_trace.h"

#include "harness/rollout/fixture.h"
#include "run/safetensors.h"
#include "support/record_hash.h"

namespace dp_bench::run {
namespace {

using testing::Each;
using testing::ElementsAre;

class TraceTest : public rollout::RolloutTest {
 protected:
  TraceTest() {
    config_.record_traces = true;
    world_.end_of = [](std::uint64_t seed) { return seed == 100001 ? 11 : 1 << 30; };
  }

  ArrayMap TraceOf(const std::string& split, std::uint64_t seed) const {
    return ReadSafetensors(scratch_.path() / TraceFile(split, seed)).tensors;
  }
};

TEST_F(TraceTest, HasEachStepAndEachObservationThatAPlanSaw) {
  const RunResult result = Run();
  const ArrayMap trace = TraceOf("test", 100001);
  EXPECT_EQ(trace.at("action").shape(), (Shape{11, 2}));
  EXPECT_EQ(trace.at("metrics").shape(), (Shape{11, 3}));
  // the window of the second plan; there was no third plan
  EXPECT_THAT(trace.at("obs_step").as<std::int64_t>(), ElementsAre(0, 7, 8));
  EXPECT_THAT(trace.at("obs.step").as<float>(), ElementsAre(0.0F, 7.0F, 8.0F));
  EXPECT_EQ(trace.at("obs.pos").shape(), (Shape{3, 2}));
  EXPECT_EQ(trace.at("obs_sha256.pixels").shape(), (Shape{3, 64}));

  const auto terminated = trace.at("terminated").as<std::uint8_t>();
  EXPECT_THAT(terminated.first(10), Each(0));
  EXPECT_EQ(terminated[10], 1);
  EXPECT_EQ(std::ranges::max(trace.at("reward").as<double>()), result.records[3].score);
}

TEST_F(TraceTest, OfAFailedEpisodeEndsBeforeItsFault) {
  world_.fault_of = [](std::uint64_t seed) {
    if (seed == 100000) return rollout::Fault::kTooFewMetrics;
    return seed == 100002 ? rollout::Fault::kThrowInReset : rollout::Fault::kNone;
  };
  Run();
  EXPECT_EQ(TraceOf("test", 100000).at("metrics").shape(), (Shape{5, 3}));
  EXPECT_EQ(TraceOf("test", 100002).at("metrics").shape(), (Shape{0, 3}));
}

TEST_F(TraceTest, RecordingChangesNothing) {
  const std::string recorded = HashRecords(Run().records);
  config_.record_traces = false;
  EXPECT_EQ(HashRecords(Run().records), recorded);
}

}  // namespace
}  // namespace dp_bench::run
