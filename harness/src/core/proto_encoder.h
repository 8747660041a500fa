// The part of the protocol buffers wire format (protobuf.dev/programming-guides/encoding) that
// TensorBoard's events and ONNX models need. Fields added in the order of their numbers give the
// same bytes as Google's serializer.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace dp_bench::core {

/// A number as bytes, the lowest first, as TFRecord and protocol buffers store it.
template <std::unsigned_integral T>
void AppendLittleEndian(T value, std::string* out) {
  for (unsigned shift = 0; shift < 8 * sizeof(T); shift += 8) {
    *out += static_cast<char>(value >> shift);
  }
}

/// Builds one message. In proto3, a number outside a oneof is omitted if it is zero: AddInt64 and
/// AddDouble do that, the others always write.
class ProtoEncoder {
 public:
  /// int64, bool or enum.
  void AddInt64(int field, std::int64_t value) {
    if (value != 0) AddEveryInt64(field, value);
  }

  void AddDouble(int field, double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    if (bits == 0) return;  // but not -0.0
    AddTag(field, kFixed64);
    AppendLittleEndian(bits, &message_);
  }

  /// An int64 that is written even if it is zero: an element of a repeated field.
  void AddEveryInt64(int field, std::int64_t value) {
    AddTag(field, kVarint);
    AddVarint(static_cast<std::uint64_t>(value));
  }

  /// A float that is written even if it is zero, as in a oneof.
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

  /// Returns the bytes of the message and leaves the encoder empty.
  std::string Take() { return std::exchange(message_, {}); }

 private:
  enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

  void AddTag(int field, WireType type) {
    AddVarint((static_cast<std::uint64_t>(field) << 3) | type);
  }

  // Seven bits per byte, lowest first; the top bit means that more bytes follow.
  void AddVarint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) message_ += static_cast<char>(value | 0x80);
    message_ += static_cast<char>(value);
  }

  std::string message_;
};

}  // namespace dp_bench::core
