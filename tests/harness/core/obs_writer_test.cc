// Where an env writes its observation: by key, with the dtype of the spec.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "dp_bench/env.h"
#include "dp_bench/error.h"
#include "support/error_of.h"

namespace dp_bench {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ObsWriterTest : public testing::Test {
 protected:
  const std::vector<KeySpec> keys_ = {
      {.name = "depth", .type = KeyType::kDepth, .shape = {1, 2, 3}, .dtype = DType::kUInt16},
      {.name = "pos", .shape = {2}}};
  std::array<std::uint16_t, 6> depth_ = {};
  std::array<float, 2> pos_ = {};
  std::vector<std::span<std::byte>> buffers_ = {std::as_writable_bytes(std::span(depth_)),
                                                std::as_writable_bytes(std::span(pos_))};
};

TEST_F(ObsWriterTest, GivesTheBufferOfAKey) {
  const ObsWriter obs(keys_, buffers_);
  obs.Buffer<float>("pos")[1] = 2.5F;
  obs.Buffer<std::uint16_t>("depth")[5] = 700;
  EXPECT_EQ(pos_[1], 2.5F);
  EXPECT_EQ(depth_[5], 700);
  EXPECT_EQ(obs.Buffer<std::uint16_t>("depth").size(), 6U);
}

TEST_F(ObsWriterTest, RefusesAnotherDTypeAndUnknownKeys) {
  const ObsWriter obs(keys_, buffers_);
  EXPECT_THAT(
      MessageOf(ErrorCode::kShape, [&] { obs.Buffer<float>("depth"); }),
      AllOf(HasSubstr("'depth': expected Buffer<T> of uint16, as in the spec, found float32")));
  EXPECT_THAT(MessageOf(ErrorCode::kShape, [&] { obs.Buffer<float>("velocity"); }),
              HasSubstr("found 'velocity'"));
}

TEST_F(ObsWriterTest, RefusesBuffersThatDoNotFitTheSpec) {
  EXPECT_THAT(MessageOf(ErrorCode::kShape, [&] { ObsWriter(keys_, std::span(buffers_).first(1)); }),
              HasSubstr("expected 2 observation buffers, found 1"));
  buffers_[1] = buffers_[1].first(7);
  EXPECT_THAT(MessageOf(ErrorCode::kShape, [&] { ObsWriter(keys_, buffers_); }),
              HasSubstr("expected a buffer of 8 bytes for 'pos', found 7"));
}

}  // namespace
}  // namespace dp_bench
