// Bytes by hand: the examples of protobuf.dev/programming-guides/encoding, and fields of
// TensorBoard's Event.
#include "core/proto_encoder.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "support/hex.h"

namespace dp_bench::core {
namespace {

TEST(ProtoEncoder, IntegersAreVarints) {
  ProtoEncoder message;
  message.AddInt64(1, 150);
  message.AddInt64(2, 1);
  message.AddInt64(3, 127);
  message.AddInt64(4, 128);
  EXPECT_EQ(ToHex(message.Take()),
            "089601"
            "1001"
            "187f"
            "208001");
}

TEST(ProtoEncoder, NegativeIntegersTakeTenBytes) {
  ProtoEncoder message;
  message.AddInt64(2, -2);
  message.AddInt64(2, std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(ToHex(message.Take()),
            "10feffffffffffffffff01"
            "1080808080808080808001");
}

TEST(ProtoEncoder, FieldsFrom16OnHaveTagsOfTwoBytes) {
  ProtoEncoder message;
  message.AddInt64(15, 1);
  message.AddInt64(16, 1);
  EXPECT_EQ(ToHex(message.Take()),
            "7801"
            "800101");
}

TEST(ProtoEncoder, FloatingPointNumbersAreLittleEndian) {
  ProtoEncoder message;
  message.AddDouble(1, 1.0);
  message.AddFloat(2, -2.0F);
  EXPECT_EQ(ToHex(message.Take()),
            "09000000000000f03f"
            "15000000c0");
}

TEST(ProtoEncoder, ZerosOutsideOfAOneofAreLeftOut) {
  ProtoEncoder message;
  message.AddInt64(1, 0);
  message.AddDouble(1, 0.0);
  EXPECT_EQ(ToHex(message.Take()), "");
  message.AddDouble(1, -0.0);
  message.AddFloat(2, 0.0F);
  EXPECT_EQ(ToHex(message.Take()),
            "090000000000000080"
            "1500000000");
}

TEST(ProtoEncoder, BytesAndMessagesFollowTheirLength) {
  ProtoEncoder inner;
  inner.AddInt64(1, 150);
  ProtoEncoder message;
  message.AddBytes(2, "testing");
  message.AddMessage(3, inner);
  message.AddBytes(4, "");
  EXPECT_EQ(ToHex(message.Take()),
            "120774657374696e67"
            "1a03089601"
            "2200");

  message.AddBytes(1, std::string(300, 'a'));
  EXPECT_EQ(ToHex(message.Take()).substr(0, 8), "0aac0261");
}

}  // namespace
}  // namespace dp_bench::core
