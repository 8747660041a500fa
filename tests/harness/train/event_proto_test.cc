// Events and records equal those of TensorBoard's own classes byte for byte.
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/hex.h"
#include "support/json_golden.h"
#include "train/event_writer.h"

namespace dp_bench::train {
namespace {

class EventProto : public testing::Test {
 protected:
  EventTime At(std::int64_t step) const {
    return {.wall_time = golden_["wall_time"], .step = step};
  }
  std::string Wanted(const std::string& event) const { return golden_["events"][event]; }

  const nlohmann::json golden_ = JsonGolden("tensorboard_events");
};

TEST_F(EventProto, FileVersionIsThatOfTensorBoard) {
  EXPECT_EQ(ToHex(FileVersionEvent(At(0).wall_time)), Wanted("file_version"));
}

TEST_F(EventProto, SessionStartIsThatOfTensorBoard) {
  EXPECT_EQ(ToHex(SessionStartEvent(At(300))), Wanted("session_start"));
  EXPECT_EQ(ToHex(SessionStartEvent(At(0))), Wanted("session_start_at_0"));
}

TEST_F(EventProto, ScalarsAreThoseOfTensorBoard) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(ToHex(ScalarEvent(At(7), "train_loss", 0.1F)), Wanted("scalar"));
  EXPECT_EQ(ToHex(ScalarEvent(At(0), "train_loss", 0.0F)), Wanted("scalar_zero"));
  EXPECT_EQ(ToHex(ScalarEvent(At(1LL << 40), "train_loss", kNan)), Wanted("scalar_nan"));
  EXPECT_EQ(ToHex(ScalarEvent(At(-1), "a/b", -kInfinity)), Wanted("scalar_negative_step"));
}

TEST_F(EventProto, ImagesAreThoseOfTensorBoard) {
  const std::string png = FromHex(golden_["png"]);
  EXPECT_EQ(ToHex(ImageEvent(At(7), "rollout", 3, 2, png)), Wanted("image"));
}

TEST_F(EventProto, RecordsAreThoseOfTensorBoard) {
  std::string file;
  AppendTfRecord(FileVersionEvent(At(0).wall_time), &file);
  AppendTfRecord("", &file);
  EXPECT_EQ(ToHex(file), golden_["records"]["file_version"].get<std::string>() +
                             golden_["records"]["empty"].get<std::string>());
}

}  // namespace
}  // namespace dp_bench::train
