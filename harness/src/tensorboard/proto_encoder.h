// The part of the protocol buffers wire format (protobuf.dev/programming-guides/encoding) that
// Event messages need. Fields that are added in the order of their numbers give the bytes of
// Google's serializer.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tensorboard/little_endian.h"

namespace dp_bench {

/// Builds one message. In proto3 a number outside of a oneof is left out when it is zero: AddInt64
/// and AddDouble do so, the others always write.
class ProtoEncoder {
 public:
  /// int64, bool or enum.
  void AddInt64(int field, std::int64_t value) {
    if (value == 0) return;
    AddTag(field, kVarint);
    AddVarint(static_cast<std::uint64_t>(value));
  }

  void AddDouble(int field, double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    if (bits == 0) return;  // but not -0.0
    AddTag(field, kFixed64);
    AppendLittleEndian(bits, &message_);
  }

  /// A float that is a member of a oneof.
  void AddFloat(int field, float value) {
    AddTag(field, kFixed32);
    AppendLittleEndian(std::bit_cast<std::uint32_t>(value), &message_);
  }

  /// A string, bytes, or an encoded message.
  void AddBytes(int field, std::string_view bytes) {
    AddTag(field, kLengthDelimited);
    AddVarint(bytes.size());
    message_ += bytes;
  }

  void AddMessage(int field, const ProtoEncoder& message) { AddBytes(field, message.message_); }

  /// A repeated double with [packed = true].
  void AddPackedDoubles(int field, std::span<const double> values) {
    AddTag(field, kLengthDelimited);
    AddVarint(values.size_bytes());
    for (const double value : values) {
      AppendLittleEndian(std::bit_cast<std::uint64_t>(value), &message_);
    }
  }

  /// The bytes of the message; leaves the encoder empty.
  std::string Take() { return std::exchange(message_, {}); }

 private:
  enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

  void AddTag(int field, WireType type) {
    AddVarint((static_cast<std::uint64_t>(field) << 3) | type);
  }

  // Seven bits per byte, the lowest first; the top bit tells that more follow.
  void AddVarint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) message_ += static_cast<char>(value | 0x80);
    message_ += static_cast<char>(value);
  }

  std::string message_;
};

}  // namespace dp_bench
